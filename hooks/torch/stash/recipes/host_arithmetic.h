// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hooks/torch/stash/recipes/arithmetic.h"

namespace cinch::hooks {

/// PyTorch's CPU operators, and kernels of Cinch's own. Thread-safe.
const Arithmetic& host_arithmetic() noexcept;

}  // namespace cinch::hooks
