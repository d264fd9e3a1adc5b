// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::hooks {

/// Bytes of host memory that this process can still get, within its control group's limit; 0 if
/// unknown.
std::size_t available_host_bytes() noexcept;

/// Resident memory of this process now, in bytes; 0 when /proc can't be read.
std::uint64_t resident_bytes() noexcept;

/// Peak resident memory of this process, in bytes (VmHWM); 0 when /proc can't be read.
std::uint64_t peak_resident_bytes() noexcept;

}  // namespace cinch::hooks
