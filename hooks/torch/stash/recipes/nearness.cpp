// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/nearness.h"

#include <limits>

#include <ATen/ops/abs.h>
#include <ATen/ops/all.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/le.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/sub.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "hooks/torch/stash/recipes/parts.h"

namespace cinch::hooks {
namespace {

/// The distance from 1 to the next number.
double epsilon_of(c10::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kBFloat16:
      return static_cast<double>(std::numeric_limits<c10::BFloat16>::epsilon());
    case at::kHalf:
      return static_cast<double>(std::numeric_limits<c10::Half>::epsilon());
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

}  // namespace

at::Tensor are_near(const at::Tensor& computed, const at::Tensor& actual) {
  constexpr double of_value = 2;
  constexpr double of_largest = 8;
  const c10::ScalarType type = actual.scalar_type();
  const c10::ScalarType computes_in = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto [least, most] = at::aminmax(actual);
  const at::Tensor largest = at::maximum(most, least.neg()).to(computes_in);
  const at::Tensor slack = largest.mul(of_largest * epsilon_of(computes_in));
  at::Tensor near = at::isfinite(largest);
  for_each_part(computed, actual, [&](const at::Tensor& computed, const at::Tensor& actual) {
    const at::Tensor expected = actual.to(computes_in);
    const at::Tensor bound = at::abs(expected).mul_(of_value * epsilon_of(type)).add_(slack);
    const at::Tensor difference = at::sub(computed.to(computes_in), expected).abs_();
    near = near.logical_and(at::all(at::le(difference, bound)));
  });
  return near;
}

}  // namespace cinch::hooks
