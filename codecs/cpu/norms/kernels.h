// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Kernels of codecs/arithmetic/norms.h, dispatched to this processor's target.
namespace cinch::codecs::cpu {

/// y[j] = fma(x[j], scale, shift).
void scale_by_one(std::int64_t n, const float* x, float scale, float shift, float* y);

/// y[j] = fma(x[j], scale[j], shift[j]).
void scale_by_each(std::int64_t n, const float* x, const float* scale, const float* shift,
                   float* y);

/// y[j] = fma((x[j] - mean) * rstd, weight[j], bias[j]).
void normalize_row(std::int64_t n, const float* x, float mean, float rstd, const float* weight,
                   const float* bias, float* y);

}  // namespace cinch::codecs::cpu
