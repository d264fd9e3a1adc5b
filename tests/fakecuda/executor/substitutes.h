// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call.h"

namespace fakecuda::executor {

/// What stands for an operator that only CUDA has, or that CUDA and the CPU compute differently;
/// null where the CPU's kernel is right.
Substitute substitute_of(const c10::OperatorHandle& op);

/// Makes scaled_dot_product_attention choose for CUDA what it would for the CPU, where a kernel for
/// CUDA has a substitute.
void choose_attention();

}  // namespace fakecuda::executor
