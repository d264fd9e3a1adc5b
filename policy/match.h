// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "policy/policy.h"

namespace cinch::policy {

/// Whether `pattern`, where * stands for any characters and ? for one, matches all of `text`.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

/// Whether one dimension's pattern ("*", "64", ">=64", "<=64") admits `size`.
bool dimension_match(std::string_view pattern, std::int64_t size) noexcept;

/// `op` without the underscore of in-place variants: "aten::relu_" is "aten::relu".
std::string_view functional_name(std::string_view op) noexcept;

/// Whether `rule` matches `use`.
bool rule_match(const Rule& rule, const Use& use) noexcept;

/// The first of `rules` that matches `use`, or their end.
std::vector<Rule>::const_iterator first_match(const std::vector<Rule>& rules,
                                              const Use& use) noexcept;

}  // namespace cinch::policy
