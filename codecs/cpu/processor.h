// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::codecs::cpu {

/// Whether this processor can run any of the targets that kernels were compiled for. Where it
/// cannot, nothing of the CPU engine may be called.
/// The processor is asked once: codecs are made for every plan, and asking takes microseconds.
bool processor_has_target() noexcept;

/// Has the processor asked again: for tests that tell Highway of another one.
void forget_processor() noexcept;

}  // namespace cinch::codecs::cpu
