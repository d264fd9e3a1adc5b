// SPDX-License-Identifier: Apache-2.0
#include "substitutes.h"

#include <string>
#include <unordered_map>

#include <ATen/Context.h>

namespace fakecuda::executor {

Substitute substitute_of(const c10::OperatorHandle&) {
  return nullptr;
}

void choose_attention() {
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
}

}  // namespace fakecuda::executor
