// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>

#include "fakecuda.h"

namespace fakecuda::executor {

/// Whether operators compute anything (FAKECUDA_COMPUTE, 1). Otherwise their results have the right
/// sizes, and no memory is read or written.
bool computes();

/// CPU tensors over the memory of CUDA tensors, for one call of an operator. They own nothing, as a
/// kernel on a GPU owns nothing: the memory may be freed before work that was enqueued has run.
/// Where nothing is computed, they are meta tensors.
class Aliases {
 public:
  /// An alias of `tensor`, or the tensor itself when it isn't a strided CUDA tensor. Tensors that
  /// share a storage have aliases that do. What is `written` may be resized.
  at::Tensor of(const at::Tensor& tensor, bool written);

  /// What the storages cover.
  const std::vector<fakecuda_range>& ranges() const { return ranges_; }

 private:
  std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_;
  std::vector<fakecuda_range> ranges_;
};

/// Copies a CPU result to a CUDA tensor's memory; sizes are equal.
void store(const at::Tensor& result, const at::Tensor& alias);

/// A CUDA tensor with a CPU result's sizes and strides (contiguous where those overlap).
at::Tensor allocated_like(const at::Tensor& result, c10::Device device);

}  // namespace fakecuda::executor
