// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/device_comparison.h"

#include <cstdint>

#include <ATen/ops/any.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/zeros.h>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/on_device/offload.h"
#include "hooks/torch/stash/recipes/nearness.h"
#include "hooks/torch/stash/recipes/parts.h"

namespace cinch::hooks {
namespace {

/// Never destroyed, since a device may write to its memory until the process ends.
ResultPool& outcomes() {
  static auto& pool = *[] {
    auto* const made = new ResultPool(pinned_host());
    register_fork_lock(made->mutex());
    return made;
  }();
  return pool;
}

/// The values as integers, whose comparison is one of bits.
at::Tensor bits_of(const at::Tensor& values) {
  return values.view(values.element_size() == 2 ? at::kShort : at::kInt);
}

/// Whether a norm's weights are all 1 and its biases all 0, as a boolean on the device. Undefined:
/// no norm has weights.
at::Tensor find_neutral_norm(const Recipe& recipe) {
  at::Tensor found;
  recipe.for_each_step([&](const Recipe::Step& step) {
    if (!step.weight.defined()) return;
    at::Tensor differs = at::any(at::ne(step.weight, 1));
    if (step.bias.defined()) differs.logical_or_(at::any(at::ne(step.bias, 0)));
    differs.logical_not_();
    found = found.defined() ? found.logical_or_(differs) : differs;
  });
  return found;
}

/// A Proofs::Comparison as a byte on the device: neutral, or how many of the two proofs fail.
at::Tensor compared(const Recipe& recipe, const at::Tensor& computed, const at::Tensor& actual,
                    bool near_serves) {
  using enum Proofs::Comparison;
  static_assert(static_cast<int>(equal) == 0 && static_cast<int>(near) == 1 &&
                static_cast<int>(different) == 2);
  at::Tensor differs = at::zeros({}, actual.options().dtype(at::kBool));
  for_each_part(bits_of(computed), bits_of(actual),
                [&](const at::Tensor& computed, const at::Tensor& actual) {
                  differs.logical_or_(at::any(at::ne(computed, actual)));
                });
  at::Tensor failed = differs.to(at::kByte);
  if (near_serves) {
    return failed.mul_(are_near(computed, actual).logical_not_().to(at::kByte).add_(1));
  }
  failed.mul_(2);
  const at::Tensor has_neutral = find_neutral_norm(recipe);
  if (!has_neutral.defined()) return failed;
  return failed.masked_fill_(has_neutral.logical_and(differs.logical_not()),
                             static_cast<int>(neutral));
}

}  // namespace

std::shared_ptr<const DeviceComparison> DeviceComparison::enqueue(const Recipe& recipe,
                                                                  const at::Tensor& computed,
                                                                  const at::Tensor& actual,
                                                                  bool near_serves,
                                                                  const c10::Stream& stream) {
  const at::Tensor found = compared(recipe, computed, actual, near_serves);
  codecs::cuda::Result* const outcome = outcomes().take();
  if (outcome == nullptr) return nullptr;
  const bool enqueued =
      cuda_codecs()->copy(outcome, found.const_data_ptr(), sizeof(std::uint8_t), native(stream));
  const std::shared_ptr<const DeviceComparison> made(
      new DeviceComparison(outcome, work_of(lasting(stream))));
  return enqueued ? made : nullptr;
}

DeviceComparison::~DeviceComparison() {
  outcomes().give_back({outcome_, /*comes=*/false, {work_}});
}

std::optional<Proofs::Comparison> DeviceComparison::outcome() const noexcept {
  if (work_.is_under_way()) return std::nullopt;
  if (!work_.happened()) return Proofs::Comparison::different;
  return static_cast<Proofs::Comparison>(*reinterpret_cast<const std::uint8_t*>(outcome_));
}

}  // namespace cinch::hooks
