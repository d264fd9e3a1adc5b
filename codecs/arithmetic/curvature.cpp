// SPDX-License-Identifier: Apache-2.0
#include "codecs/arithmetic/curvature.h"

#include <algorithm>

#include "codecs/arithmetic/curvature_terms.h"
#include "codecs/cpu/curvature/kernels.h"
#include "codecs/cpu/processor.h"

namespace cinch::codecs {
namespace {

// Fewest elements that are worth a thread.
constexpr std::int64_t least_curved = 32768;

struct Plain {
  static float reciprocal(float x) { return 1 / x; }
  static float least(float x, float bound) { return x < bound ? x : bound; }
  static float positive(float x) { return x > 0 ? x : 0; }
};

float without_bias(Smooth function, float x, float factor) {
  switch (function) {
    case Smooth::gelu:
      return curvature::without_bias<Smooth::gelu, Plain>(x, factor);
    case Smooth::gelu_tanh:
      return curvature::without_bias<Smooth::gelu_tanh, Plain>(x, factor);
    case Smooth::silu:
      break;
  }
  return curvature::without_bias<Smooth::silu, Plain>(x, factor);
}

}  // namespace

void apply_without_bias(Smooth function, const GroupSteps& of, std::int64_t first, std::int64_t n,
                        const float* x, float* y, ParallelFor parallel, Engine engine) {
  const bool kernels = engine == Engine::cpu && cpu::processor_has_target();
  const GroupOrder& order = of.order;
  const std::int64_t groups = order.groups_of_plane();
  for_range(parallel, n, least_curved, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t plane = (first + begin) / order.plane;
      const std::int64_t in_plane = (first + begin) % order.plane;
      const std::int64_t group = order.interleaved ? in_plane % groups : in_plane / order.group;
      const std::int64_t run_end = order.interleaved
                                       ? in_plane - group + groups
                                       : std::min((group + 1) * order.group, order.plane);
      const std::int64_t count = std::min(end - begin, run_end - in_plane);
      const float* const steps = of.steps + plane * groups + group;
      if (kernels && order.interleaved) {
        cpu::apply_without_curvature(function, count, x + begin, steps, y + begin);
      } else if (kernels) {
        cpu::apply_without_curvature(function, count, x + begin, *steps, y + begin);
      } else {
        for (std::int64_t k = 0; k < count; ++k) {
          const float factor = curvature::factor(order.interleaved ? steps[k] : *steps);
          y[begin + k] = without_bias(function, x[begin + k], factor);
        }
      }
      begin += count;
    }
  });
}

}  // namespace cinch::codecs
