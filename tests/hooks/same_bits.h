// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// Whether two tensors have the same sizes and, however they lie in memory, the same bits.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.sizes() == y.sizes() && x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace cinch::hooks
