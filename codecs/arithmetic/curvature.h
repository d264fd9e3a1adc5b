// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"

/// Smooth functions of decoded values, without the bias that quantization gives them.
///
/// Subtractive dithering makes the error of a decoded x uniform within half a step on either side,
/// so its variance is step^2 / 12. Then f(decoded x) is f(x) + f''(x) step^2 / 24 on average, to
/// second order: what is added is subtracted here, at the decoded x.
namespace cinch::codecs {

/// GELU, its approximation by tanh, and SiLU.
enum class Smooth : std::uint8_t { gelu, gelu_tanh, silu };

/// Steps by which the elements of a storage were quantized.
struct GroupSteps {
  const float* steps = nullptr;  ///< one a group
  GroupOrder order;
};

/// y[k] = f(x[k]) - f''(x[k]) step^2 / 24 for `n` neighbouring elements, of which the first is
/// element `first` of the storage. Off by at most 1e-5 + 1e-6 |x| for steps of at most 4. All
/// engines give equal bits (codecs/arithmetic/curvature_terms.h).
/// @param y May be `x`
void apply_without_bias(Smooth function, const GroupSteps& of, std::int64_t first, std::int64_t n,
                        const float* x, float* y, ParallelFor parallel,
                        Engine engine = Engine::cpu);

}  // namespace cinch::codecs
