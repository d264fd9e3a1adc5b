// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/errors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "codecs/float_formats.h"

namespace cinch::bench {
namespace {

using codecs::ElementType;

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// `f` with a function that turns an address into the value of the element there.
template <typename F>
void with_reader(ElementType type, F f) {
  switch (type) {
    case ElementType::float32:
      return f([](const std::byte* p) -> double { return load<float>(p); });
    case ElementType::bfloat16:
      return f([](const std::byte* p) -> double {
        return codecs::float_of_bf16(load<std::uint16_t>(p));
      });
    case ElementType::float16:
      return f([](const std::byte* p) -> double {
        return codecs::float_of_f16(load<std::uint16_t>(p));
      });
    case ElementType::boolean:
    case ElementType::uint8:
      return f([](const std::byte* p) -> double { return load<std::uint8_t>(p); });
    case ElementType::int64:
      return f([](const std::byte* p) { return static_cast<double>(load<std::int64_t>(p)); });
    default:
      throw std::invalid_argument("no such data in this benchmark");
  }
}

template <typename Read, typename Map>
Errors compare(std::size_t step, std::span<const std::byte> source,
               std::span<const std::byte> decoded, Read read, Map map) {
  double difference = 0;
  double norm = 0;
  double largest = 0;
  for (std::size_t at = 0; at < source.size(); at += step) {
    const double x = map(read(source.data() + at));
    const double d = x - map(read(decoded.data() + at));
    difference += d * d;
    norm += x * x;
    largest = std::max(largest, std::abs(d));
  }
  return {norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference), largest};
}

}  // namespace

Errors errors_of(ElementType type, std::span<const std::byte> source,
                 std::span<const std::byte> decoded, const Restored& restored) {
  const std::size_t step = codecs::element_size(type);
  Errors errors;
  with_reader(type, [&](auto read) {
    switch (restored.what) {
      case Restored::values:
        errors = compare(step, source, decoded, read, [](double x) { return x; });
        break;
      case Restored::sign:
        errors = compare(step, source, decoded, read, [](double x) { return x > 0 ? 1.0 : 0.0; });
        break;
      case Restored::interval:
        errors = compare(step, source, decoded, read, [&](double x) {
          return x > restored.lower && x < restored.upper ? 1.0 : 0.0;
        });
        break;
    }
  });
  return errors;
}

double root_mean_square(ElementType type, std::span<const std::byte> source) {
  if (!codecs::is_quantizable(type)) return 1;
  double sum = 0;
  const std::size_t step = codecs::element_size(type);
  with_reader(type, [&](auto read) {
    for (std::size_t at = 0; at < source.size(); at += step) {
      const double x = read(source.data() + at);
      sum += x * x;
    }
  });
  return sum > 0 ? std::sqrt(sum / static_cast<double>(source.size() / step)) : 1;
}

}  // namespace cinch::bench
