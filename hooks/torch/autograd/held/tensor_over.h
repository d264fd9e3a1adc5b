// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <ATen/core/TensorBase.h>
#include <c10/core/Storage.h>

#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

inline c10::DeviceType device_type(const Entry& entry) {
  return entry.device == nullptr ? c10::kCPU : c10::kCUDA;
}

/// A plain tensor over `storage`, which no graph knows.
inline at::Tensor tensor_over(c10::Storage storage, c10::DeviceType device, c10::ScalarType type,
                              const Geometry& geometry) {
  const c10::DispatchKeySet keys(device == c10::kCUDA ? c10::DispatchKey::CUDA
                                                      : c10::DispatchKey::CPU);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys,
                                                         c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes(), geometry.strides(),
                                                      geometry.offset());
  return tensor;
}

}  // namespace cinch::hooks
