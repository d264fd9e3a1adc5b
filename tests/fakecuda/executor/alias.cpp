// SPDX-License-Identifier: Apache-2.0
#include "alias.h"

#include <cstdlib>
#include <cstring>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>

namespace fakecuda::executor {

bool computes() {
  static const bool wanted = [] {
    const char* text = std::getenv("FAKECUDA_COMPUTE");
    return text == nullptr || std::strcmp(text, "0") != 0;
  }();
  return wanted;
}

at::Tensor Aliases::of(const at::Tensor& tensor, bool written) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != at::kStrided) return tensor;
  c10::StorageImpl* const original = tensor.storage().unsafeGetStorageImpl();
  c10::Storage storage;
  for (const auto& [known, alias] : storages_) {
    if (known == original) storage = alias;
  }
  const c10::DeviceType type = computes() ? c10::kCPU : c10::kMeta;
  if (!storage) {
    void* memory = computes() ? original->mutable_data() : nullptr;
    storage = c10::Storage(c10::Storage::use_byte_size_t(), original->nbytes(),
                           c10::DataPtr(memory, c10::Device(type)), c10::GetAllocator(type),
                           /*resizable=*/written);
    storages_.emplace_back(original, storage);
    ranges_.push_back({memory, original->nbytes()});
  }
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      c10::DispatchKeySet(computes() ? c10::DispatchKey::CPU : c10::DispatchKey::Meta),
      tensor.dtype());
  c10::TensorImpl* const impl = alias.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.is_conj()) alias._set_conj(true);
  if (tensor.is_neg()) alias._set_neg(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return alias;
}

void store(const at::Tensor& result, const at::Tensor& alias) {
  if (result.numel() == 0 || !computes()) return;
  const bool as_bytes = result.is_non_overlapping_and_dense() &&
                        result.strides() == alias.strides() && !result.is_conj() &&
                        !result.is_neg();
  if (as_bytes) {
    std::memcpy(alias.mutable_data_ptr(), result.const_data_ptr(), result.nbytes());
  } else {
    alias.copy_(result);
  }
}

at::Tensor allocated_like(const at::Tensor& result, c10::Device device) {
  const auto options = result.options().device(device);
  if (result.is_non_overlapping_and_dense()) {
    return at::empty_strided(result.sizes(), result.strides(), options);
  }
  std::vector<std::int64_t> strides(static_cast<std::size_t>(result.dim()));
  std::int64_t stride = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<std::int64_t>(result.size(static_cast<std::int64_t>(d)), 1);
  }
  return at::empty_strided(result.sizes(), strides, options);
}

}  // namespace fakecuda::executor
