// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::codecs::cpu {

/// Whether this processor can run any of the targets that kernels were compiled for. Where it
/// cannot, nothing of the CPU engine may be called.
bool processor_has_target() noexcept;

}  // namespace cinch::codecs::cpu
