// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cinch::policy {

/// "6GiB" in bytes, or nothing where that is no number of bytes that fits 53 bits.
std::optional<std::uint64_t> bytes_of(const std::string& text);

/// What people are told then.
inline constexpr const char* no_size =
    "found a size that is no whole number of bytes from 1 to 2^53 - 1";

}  // namespace cinch::policy
