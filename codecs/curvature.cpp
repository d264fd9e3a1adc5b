// SPDX-License-Identifier: Apache-2.0
#include "codecs/curvature.h"

#include <algorithm>
#include <cmath>

#include "codecs/cpu/curvature/kernels.h"
#include "codecs/cpu/processor.h"

namespace cinch::codecs {
namespace {

// Fewest elements that are worth a thread.
constexpr std::int64_t least_curved = 32768;

float value(Smooth function, float x) {
  if (function == Smooth::silu) return x / (1 + std::exp(-x));
  if (function == Smooth::gelu) return 0.5F * x * std::erfc(x * -0.70710678F);
  const float inner = 0.79788456F * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1 + std::tanh(inner));
}

float second_derivative(Smooth function, float x) {
  if (function != Smooth::silu) {
    constexpr float density_at_0 = 0.39894228F;
    const float square = std::min(x * x, 2 * kFlat);
    return density_at_0 * std::exp(-0.5F * square) * (2 - square);
  }
  const float a = std::min(std::abs(x), kFlat);
  const float e = std::exp(-a);
  const float d = 1 / (1 + e);
  return e * d * d * (2 - a * (1 - e) * d);
}

}  // namespace

void apply_without_bias(Smooth function, const GroupSteps& of, std::int64_t first, std::int64_t n,
                        const float* x, float* y, ParallelFor parallel, Engine engine) {
  const bool kernels = engine == Engine::cpu && cpu::processor_has_target();
  const std::int64_t groups = (of.plane - 1) / of.group + 1;
  for_range(parallel, n, least_curved, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t plane = (first + begin) / of.plane;
      const std::int64_t in_plane = (first + begin) % of.plane;
      const std::int64_t group = in_plane / of.group;
      const std::int64_t group_end = std::min((group + 1) * of.group, of.plane);
      const std::int64_t count = std::min(end - begin, group_end - in_plane);
      const float step = of.steps[plane * groups + group];
      const float factor = step * step / 24;
      if (kernels) {
        cpu::apply_without_curvature(function, count, x + begin, factor, y + begin);
      } else {
        for (std::int64_t k = begin; k < begin + count; ++k) {
          y[k] = value(function, x[k]) - factor * second_derivative(function, x[k]);
        }
      }
      begin += count;
    }
  });
}

}  // namespace cinch::codecs
