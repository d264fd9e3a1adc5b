// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cinch::policy {

/// Parses a size ("6GiB") into bytes. @return nothing when `text` is no size from 1 to 2^53 - 1
std::optional<std::uint64_t> bytes_of(const std::string& text);

/// The error message for a text that bytes_of refuses.
inline constexpr const char* no_size =
    "found a size that is no whole number of bytes from 1 to 2^53 - 1";

}  // namespace cinch::policy
