// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::hooks {

/// Resident memory of this process now, in bytes; 0 when /proc can't be read.
std::uint64_t resident_bytes() noexcept;

/// The most it has been, in bytes (VmHWM); 0 when /proc can't be read.
std::uint64_t peak_resident_bytes() noexcept;

}  // namespace cinch::hooks
