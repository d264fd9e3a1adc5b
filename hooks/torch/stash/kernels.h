// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hooks/torch/stash/arithmetic.h"

namespace cinch::hooks {

/// PyTorch's CPU kernels, called without its dispatcher, and Cinch's own. Thread-safe.
const Arithmetic& host_arithmetic() noexcept;

}  // namespace cinch::hooks
