// SPDX-License-Identifier: Apache-2.0
#include "codecs/norms.h"

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

}  // namespace

void scale_channels(const ChannelOrder& order, const float* x, const float* scale,
                    const float* shift, float* y, ParallelFor parallel, Engine engine) {
  const bool kernels = uses_kernels(engine);
  const auto [outer, channels, inner, tables] = order;
  if (outer == 0 || channels == 0 || inner == 0) return;
  const std::int64_t row = inner == 1 ? channels : inner;
  const std::int64_t rows = inner == 1 ? outer : outer * channels;
  const std::int64_t rows_per_table = rows / tables;
  for_range(parallel, rows, grain_of(row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const from = x + r * row;
      float* const to = y + r * row;
      const std::int64_t table = r / rows_per_table * channels;
      if (inner == 1) {
        const float* const a = scale + table;
        const float* const b = shift + table;
        if (kernels) {
          cpu::scale_by_each(row, from, a, b, to);
        } else {
          for (std::int64_t j = 0; j < row; ++j) to[j] = std::fma(from[j], a[j], b[j]);
        }
        continue;
      }
      const float a = scale[table + r % channels];
      const float b = shift[table + r % channels];
      if (kernels) {
        cpu::scale_by_one(row, from, a, b, to);
      } else {
        for (std::int64_t j = 0; j < row; ++j) to[j] = std::fma(from[j], a, b);
      }
    }
  });
}

void normalize_rows(std::int64_t rows, std::int64_t n, const float* x, const float* mean,
                    const float* rstd, const float* weight, const float* bias, float* y,
                    ParallelFor parallel, Engine engine) {
  const bool kernels = uses_kernels(engine);
  for_range(parallel, rows, grain_of(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const from = x + r * n;
      float* const to = y + r * n;
      if (kernels) {
        cpu::normalize_row(n, from, mean[r], rstd[r], weight, bias, to);
        continue;
      }
      for (std::int64_t j = 0; j < n; ++j) {
        to[j] = std::fma((from[j] - mean[r]) * rstd[r], weight[j], bias[j]);
      }
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
