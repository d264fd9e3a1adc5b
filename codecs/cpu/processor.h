// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::codecs::cpu {

/// Whether this processor can run any of the targets that kernels were compiled for. If not,
/// nothing of the CPU engine may be called.
/// The result is cached: codecs are made for every plan, and detection takes microseconds.
bool processor_has_target() noexcept;

/// Makes the next call detect the processor again, for tests that give Highway another one.
void forget_processor() noexcept;

}  // namespace cinch::codecs::cpu
