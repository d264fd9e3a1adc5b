// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace cinch::hooks {

/// A tensor that is not kept alive.
class WeakTensor {
 public:
  WeakTensor() = default;
  explicit WeakTensor(const at::Tensor& tensor) : impl_(tensor.getIntrusivePtr()) {}

  /// Undefined once nobody holds the tensor.
  at::Tensor lock() const { return at::Tensor(impl_.lock()); }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl> impl_{c10::intrusive_ptr<c10::TensorImpl>()};
};

}  // namespace cinch::hooks
