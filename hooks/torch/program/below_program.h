// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace cinch::hooks {

/// For its scope, this thread's operators go straight to their kernels: past autograd, autocast,
/// functorch and the program's dispatch modes, and no observer sees them.
class BelowProgram {
 public:
  BelowProgram() = default;
  BelowProgram(const BelowProgram&) = delete;
  BelowProgram& operator=(const BelowProgram&) = delete;

 private:
  const c10::impl::ForceDispatchKeyGuard kernels_alone_{
      c10::default_included_set,
      c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  const at::DisableRecordFunctionGuard unobserved_;
};

}  // namespace cinch::hooks
