// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/arithmetic/curvature.h"

/// Kernels of codecs/arithmetic/curvature.h, dispatched to this processor's target.
namespace cinch::codecs::cpu {

/// y[k] = f(x[k]) - f''(x[k]) step^2 / 24, bit for bit as curvature_terms.h.
void apply_without_curvature(Smooth function, std::int64_t n, const float* x, float step, float* y);

/// The same with a step for each element.
void apply_without_curvature(Smooth function, std::int64_t n, const float* x, const float* steps,
                             float* y);

}  // namespace cinch::codecs::cpu
