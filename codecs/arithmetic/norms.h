// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"

/// Normalization layers' outputs from their inputs and known statistics, with the rounding of
/// PyTorch's CPU kernels: one fused multiply-add where they have one. Engines give equal bytes. `x`
/// and `y` may be the same memory; both are dense, `y` is written in `x`'s order.
namespace cinch::codecs {

/// Memory order of a dense tensor with channels: `outer` times `channels` times `inner` elements.
/// NCHW: outer N, inner H * W; channels last: outer N * H * W, inner 1.
struct ChannelOrder {
  std::int64_t outer = 0;
  std::int64_t channels = 0;
  std::int64_t inner = 0;
  /// Number of tables of scales and shifts by channel; each serves outer / tables.
  std::int64_t tables = 1;
};

/// y = fma(x, scale[c], shift[c]): batch and group norm.
/// @param scale,shift tables * channels values each
void scale_channels(const ChannelOrder& order, const float* x, const float* scale,
                    const float* shift, float* y, ParallelFor parallel,
                    Engine engine = Engine::cpu);

/// The same of elements [begin, end) alone.
void scale_channels(const ChannelOrder& order, std::int64_t begin, std::int64_t end, const float* x,
                    const float* scale, const float* shift, float* y, Engine engine = Engine::cpu);

/// y[j] = fma((x[j] - mean[row]) * rstd[row], weight[j], bias[j]): layer norm of `rows` rows.
/// @param weight,bias `n` values each
void normalize_rows(std::int64_t rows, std::int64_t n, const float* x, const float* mean,
                    const float* rstd, const float* weight, const float* bias, float* y,
                    ParallelFor parallel, Engine engine = Engine::cpu);

/// The same of elements [begin, end) alone.
void normalize_rows(std::int64_t begin, std::int64_t end, std::int64_t n, const float* x,
                    const float* mean, const float* rstd, const float* weight, const float* bias,
                    float* y, Engine engine = Engine::cpu);

/// y = x where the element's bit is set or x is a NaN, else 0: ReLU by the mask that codec "sign"
/// stores. In place.
void zero_where_clear(std::int64_t n, const std::byte* bits, float* x, ParallelFor parallel,
                      Engine engine = Engine::cpu);

/// y = x where x > 0 or x is a NaN, else 0: ReLU. In place.
void zero_where_not_positive(std::int64_t n, float* x, ParallelFor parallel);

}  // namespace cinch::codecs
