// SPDX-License-Identifier: Apache-2.0
#include "codecs/arithmetic/norms.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codecs/cpu/masks/kernels.h"
#include "codecs/cpu/norms/kernels.h"
#include "codecs/cpu/processor.h"

namespace cinch::codecs {
namespace {

// Fewest elements that are worth a thread.
constexpr std::int64_t grain_elements = 32768;

constexpr std::uint32_t infinity = 0x7f800000;

bool uses_kernels(Engine engine) {
  return engine == Engine::cpu && cpu::processor_has_target();
}

std::int64_t grain_of(std::int64_t row) {
  return std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, row));
}

struct Rows {
  std::int64_t row = 1;  ///< elements of each
  std::int64_t rows = 0;
};

/// Elements in memory order, as rows of one channel, or of all channels where they are next to each
/// other.
Rows rows_of(const ChannelOrder& order) {
  const auto [outer, channels, inner, tables] = order;
  if (outer == 0 || channels == 0 || inner == 0) return {};
  return inner == 1 ? Rows{channels, outer} : Rows{inner, outer * channels};
}

/// Calls visit(r, j, k, count) for the part of each row r within elements [begin, end): `count`
/// elements, the first of which is the row's j-th and the k-th of all.
template <typename Visit>
void for_each_row(std::int64_t row, std::int64_t begin, std::int64_t end, const Visit& visit) {
  for (std::int64_t k = begin; k < end;) {
    const std::int64_t r = k / row;
    const std::int64_t stop = std::min(end, (r + 1) * row);
    visit(r, k - r * row, k, stop - k);
    k = stop;
  }
}

}  // namespace

void scale_channels(const ChannelOrder& order, const float* x, const float* scale,
                    const float* shift, float* y, ParallelFor parallel, Engine engine) {
  const auto [row, rows] = rows_of(order);
  for_range(parallel, rows, grain_of(row), [&, row = row](std::int64_t begin, std::int64_t end) {
    scale_channels(order, begin * row, end * row, x, scale, shift, y, engine);
  });
}

void scale_channels(const ChannelOrder& order, std::int64_t begin, std::int64_t end, const float* x,
                    const float* scale, const float* shift, float* y, Engine engine) {
  const bool kernels = uses_kernels(engine);
  const auto [row, rows] = rows_of(order);
  const std::int64_t rows_per_table = rows / order.tables;
  for_each_row(row, begin, end,
               [&](std::int64_t r, std::int64_t j, std::int64_t k, std::int64_t n) {
                 const std::int64_t table = r / rows_per_table * order.channels;
                 if (order.inner == 1) {
                   const float* const a = scale + table + j;
                   const float* const b = shift + table + j;
                   if (kernels) {
                     cpu::scale_by_each(n, x + k, a, b, y + k);
                   } else {
                     for (std::int64_t i = 0; i < n; ++i) y[k + i] = std::fma(x[k + i], a[i], b[i]);
                   }
                   return;
                 }
                 const float a = scale[table + r % order.channels];
                 const float b = shift[table + r % order.channels];
                 if (kernels) {
                   cpu::scale_by_one(n, x + k, a, b, y + k);
                 } else {
                   for (std::int64_t i = k; i < k + n; ++i) y[i] = std::fma(x[i], a, b);
                 }
               });
}

void normalize_rows(std::int64_t rows, std::int64_t n, const float* x, const float* mean,
                    const float* rstd, const float* weight, const float* bias, float* y,
                    ParallelFor parallel, Engine engine) {
  for_range(parallel, rows, grain_of(n), [&](std::int64_t begin, std::int64_t end) {
    normalize_rows(begin * n, end * n, n, x, mean, rstd, weight, bias, y, engine);
  });
}

void normalize_rows(std::int64_t begin, std::int64_t end, std::int64_t n, const float* x,
                    const float* mean, const float* rstd, const float* weight, const float* bias,
                    float* y, Engine engine) {
  const bool kernels = uses_kernels(engine);
  for_each_row(n, begin, end, [&](std::int64_t r, std::int64_t j, std::int64_t k, std::int64_t m) {
    if (kernels) {
      cpu::normalize_row(m, x + k, mean[r], rstd[r], weight + j, bias + j, y + k);
      return;
    }
    for (std::int64_t i = 0; i < m; ++i) {
      y[k + i] = std::fma((x[k + i] - mean[r]) * rstd[r], weight[j + i], bias[j + i]);
    }
  });
}

void zero_where_clear(std::int64_t n, const std::byte* bits, float* x, ParallelFor parallel,
                      Engine engine) {
  const bool kernels = uses_kernels(engine);
  for_range(parallel, n, grain_elements, [&](std::int64_t begin, std::int64_t end) {
    if (kernels) {
      cpu::zero_others(sizeof(float), bits + begin / 8, end - begin, infinity, x + begin);
      return;
    }
    for (std::int64_t k = begin; k < end; ++k) {
      const bool set = (std::to_integer<unsigned>(bits[k / 8]) >> (k % 8) & 1U) != 0;
      if (!set && !std::isnan(x[k])) x[k] = 0;
    }
  });
}

void zero_where_not_positive(std::int64_t n, float* x, ParallelFor parallel) {
  for_range(parallel, n, grain_elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) x[k] = x[k] <= 0 ? 0.0F : x[k];
  });
}

}  // namespace cinch::codecs
