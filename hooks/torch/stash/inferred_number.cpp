// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/inferred_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace cinch::hooks {
namespace {

constexpr std::int64_t most_samples = 64;

struct Pair {
  float x;
  float y;
};

/// c of y = form(x, c), in exact arithmetic.
double number_of(NumberForm form, const Pair& pair) {
  switch (form) {
    case NumberForm::difference:
      return static_cast<double>(pair.x) - pair.y;
    case NumberForm::remainder:
      return static_cast<double>(pair.y) + pair.x;
    case NumberForm::sum:
    default:
      return static_cast<double>(pair.y) - pair.x;
  }
}

float made(NumberForm form, float x, float c) {
  switch (form) {
    case NumberForm::difference:
      return x - c;
    case NumberForm::remainder:
      return c - x;
    case NumberForm::sum:
    default:
      return x + c;
  }
}

/// `value`, rounded to so many decimal digits.
std::optional<float> rounded(double value, int digits) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value,
                                     std::chars_format::scientific, digits - 1);
  double number = 0;
  const auto read = std::from_chars(text.data(), written.ptr, number);
  if (written.ec != std::errc{} || read.ec != std::errc{}) return std::nullopt;
  return static_cast<float>(number);
}

template <typename T>
std::optional<float> infer(NumberForm form, const T* x, const T* y, std::int64_t n) {
  std::array<Pair, most_samples> room;
  const std::int64_t count = std::min(n, most_samples);
  if (count == 0) return std::nullopt;
  const std::span samples = std::span(room).first(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = count == 1 ? 0 : i * (n - 1) / (count - 1);
    samples[static_cast<std::size_t>(i)] = {static_cast<float>(x[at]), static_cast<float>(y[at])};
  }
  // The smaller x and y are, the less of c was rounded away.
  const Pair& finest = *std::ranges::min_element(
      samples, {}, [](const Pair& pair) { return std::max(std::abs(pair.x), std::abs(pair.y)); });
  const double near = number_of(form, finest);
  if (!std::isfinite(near)) return std::nullopt;
  for (int digits = 1; digits <= std::numeric_limits<float>::max_digits10; ++digits) {
    const auto c = rounded(near, digits);
    if (c && std::ranges::all_of(samples, [&](const Pair& pair) {
          return static_cast<float>(static_cast<T>(made(form, pair.x, *c))) == pair.y;
        })) {
      return c;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<float> inferred_number(NumberForm form, c10::ScalarType type, const void* x,
                                     const void* y, std::int64_t n) {
  switch (type) {
    case c10::ScalarType::Float:
      return infer(form, static_cast<const float*>(x), static_cast<const float*>(y), n);
    case c10::ScalarType::BFloat16:
      return infer(form, static_cast<const c10::BFloat16*>(x), static_cast<const c10::BFloat16*>(y),
                   n);
    case c10::ScalarType::Half:
      return infer(form, static_cast<const c10::Half*>(x), static_cast<const c10::Half*>(y), n);
    default:
      return std::nullopt;
  }
}

}  // namespace cinch::hooks
