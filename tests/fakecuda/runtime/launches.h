// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fakecuda {

/// The memory of a registered __device__ variable, or null.
void* variable_of(const void* symbol);

}  // namespace fakecuda
