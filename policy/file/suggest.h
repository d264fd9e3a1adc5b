// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cinch::policy {

/// Number of insertions, deletions, substitutions and swaps of neighbours between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// `; did you mean "…"?` for the known word nearest to `word`, or "" when none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

/// `"a", "b", "c"`.
std::string quoted_list(std::span<const std::string> words);

}  // namespace cinch::policy
