// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cinch::hooks {

/// What the host can still give, to this process's control group too. Bytes; 0 when that can't be
/// told.
std::size_t available_host_bytes() noexcept;

/// Resident memory of this process now, in bytes; 0 when /proc can't be read.
std::uint64_t resident_bytes() noexcept;

/// The most it has been, in bytes (VmHWM); 0 when /proc can't be read.
std::uint64_t peak_resident_bytes() noexcept;

}  // namespace cinch::hooks
