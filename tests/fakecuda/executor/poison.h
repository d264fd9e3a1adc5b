// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fakecuda::executor {

/// With FAKECUDA_POISON=1, poisons memory that torch's CUDA allocator (whichever it is) frees from
/// now on, as work of the stream that may use it next. Later calls do nothing.
/// @pre the allocator is initialised
void poison_freed_memory();

}  // namespace fakecuda::executor
