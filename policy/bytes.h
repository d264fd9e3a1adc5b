// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cinch::policy {

/// Parses a size ("6GiB") into bytes. Of a larger unit's fraction ("1.3GiB"), part of a byte may be
/// left over; it is dropped.
/// @return nothing when `text` is no size from 1 to 2^53 - 1, or has a fraction before "B" ("2.5B")
std::optional<std::uint64_t> bytes_of(const std::string& text);

/// The error message for a text that bytes_of refuses.
inline constexpr const char* no_size =
    "found a size below 1 byte, above 2^53 - 1 bytes, or with a fraction before \"B\", "
    "expected one like \"6GiB\", \"1.5MB\" or \"2500B\"";

}  // namespace cinch::policy
