// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/curvature.h"

/// Kernels of codecs/curvature.h, dispatched to this processor's target.
namespace cinch::codecs {

/// exp(-x) is taken to be no smaller than for this x: what it is multiplied by stays finite so.
inline constexpr float kFlat = 80.0F;

}  // namespace cinch::codecs

namespace cinch::codecs::cpu {

/// y[k] = f(x[k]) - factor f''(x[k]).
void apply_without_curvature(Smooth function, std::int64_t n, const float* x, float factor,
                             float* y);

}  // namespace cinch::codecs::cpu
