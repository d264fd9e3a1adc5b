// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/device_comparison.h"

#include <ATen/ops/any.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ne.h>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/device/offload.h"

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

/// The memory as integers, whose comparison is one of bits.
at::Tensor integers(const void* data, std::size_t bytes, c10::Device device) {
  const auto type = bytes % sizeof(std::int32_t) == 0 ? at::kInt : at::kShort;
  const auto n = static_cast<std::int64_t>(bytes / c10::elementSize(type));
  return at::for_blob(const_cast<void*>(data), {n})
      .target_device(device)
      .options(at::TensorOptions().dtype(type).device(device))
      .make_tensor();
}

}  // namespace

std::shared_ptr<const DeviceComparison> DeviceComparison::enqueue(const void* one,
                                                                  const void* other,
                                                                  std::size_t bytes,
                                                                  const c10::Stream& stream) {
  const c10::Device device = stream.device();
  const at::Tensor differ =
      at::any(at::ne(integers(one, bytes, device), integers(other, bytes, device)));
  codecs::cuda::Result* const outcome = outcomes().take();
  if (outcome == nullptr) return nullptr;
  const bool enqueued =
      cuda_codecs()->copy(outcome, differ.const_data_ptr(), sizeof(bool), native(stream));
  const std::shared_ptr<const DeviceComparison> made(
      new DeviceComparison(outcome, work_of(lasting(stream))));
  return enqueued ? made : nullptr;
}

DeviceComparison::~DeviceComparison() {
  outcomes().give_back({differ_, /*comes=*/false, {work_}});
}

std::optional<bool> DeviceComparison::are_equal() const noexcept {
  if (work_.is_under_way()) return std::nullopt;
  return work_.happened() && *reinterpret_cast<const bool*>(differ_) == false;
}

}  // namespace cinch::hooks
