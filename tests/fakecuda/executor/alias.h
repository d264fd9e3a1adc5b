// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>

#include "fakecuda.h"

namespace fakecuda::executor {

/// Whether operators compute (FAKECUDA_COMPUTE, 1). If not, results have the right sizes, but no
/// memory is read or written.
bool computes();

/// CPU tensors (meta tensors unless `computes()`) over the memory of CUDA tensors, for one call of
/// an operator. Like a GPU's kernels they own nothing: memory may be freed before work has run.
class Aliases {
 public:
  /// An alias of `tensor`, or `tensor` itself when it isn't a strided CUDA tensor. Aliases of
  /// tensors that share a storage share one too. A `written` alias may be resized.
  at::Tensor of(const at::Tensor& tensor, bool written);

  /// The memory of the storages.
  const std::vector<fakecuda_range>& ranges() const { return ranges_; }

 private:
  std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_;
  std::vector<fakecuda_range> ranges_;
};

/// Copies a CPU result to an alias of a CUDA tensor. @pre their sizes are equal
void store(const at::Tensor& result, const at::Tensor& alias);

/// Allocates a CUDA tensor with a CPU result's sizes and strides (contiguous if these overlap).
at::Tensor allocated_like(const at::Tensor& result, c10::Device device);

}  // namespace fakecuda::executor
