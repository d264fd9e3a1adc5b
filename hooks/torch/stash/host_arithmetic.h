// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/curvature.h"
#include "hooks/torch/stash/arithmetic.h"

namespace cinch::hooks {

/// PyTorch's CPU operators, and kernels of Cinch's own. Thread-safe.
const Arithmetic& host_arithmetic() noexcept;

/// @pre Recipe::is_curved(step.op)
codecs::Smooth smooth_function(const Recipe::Step& step) noexcept;

}  // namespace cinch::hooks
