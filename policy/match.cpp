// SPDX-License-Identifier: Apache-2.0
#include "policy/match.h"

#include <algorithm>
#include <charconv>

namespace cinch::policy {

bool glob_match(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0;
  std::size_t t = 0;
  // Where to resume after a mismatch: behind the last star, which then matches one more character.
  std::size_t star = pattern.npos;
  std::size_t swallowed = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      swallowed = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star;
      t = ++swallowed;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool dimension_match(std::string_view pattern, std::int64_t size) noexcept {
  if (pattern == "*") return true;
  const bool at_least = pattern.starts_with(">=");
  const bool at_most = pattern.starts_with("<=");
  if (at_least || at_most) pattern.remove_prefix(2);
  std::int64_t bound = 0;
  const auto [end, error] = std::from_chars(pattern.data(), pattern.data() + pattern.size(), bound);
  if (error != std::errc{} || end != pattern.data() + pattern.size()) return false;
  if (at_least) return size >= bound;
  return at_most ? size <= bound : size == bound;
}

std::string_view functional_name(std::string_view op) noexcept {
  if (op.starts_with("aten::") && op.ends_with('_') && !op.ends_with("__")) op.remove_suffix(1);
  return op;
}

bool rule_match(const Rule& rule, const Use& use) noexcept {
  if (!glob_match(rule.op, use.op) && !glob_match(rule.op, functional_name(use.op))) return false;
  if (!glob_match(rule.operand, use.operand)) return false;
  if (rule.dtype && *rule.dtype != Dtype{use.type, use.is_complex}) return false;
  if (rule.recomputed && *rule.recomputed != use.is_recomputed) return false;
  if (rule.linear_output && *rule.linear_output != use.is_linear_output) return false;
  if (rule.shape.empty()) return true;
  if (rule.shape.size() != use.geometry.sizes.size()) return false;
  for (std::size_t i = 0; i < rule.shape.size(); ++i) {
    if (!dimension_match(rule.shape[i], use.geometry.sizes[i])) return false;
  }
  return true;
}

std::vector<Rule>::const_iterator first_match(const std::vector<Rule>& rules,
                                              const Use& use) noexcept {
  return std::ranges::find_if(rules, [&use](const Rule& rule) { return rule_match(rule, use); });
}

}  // namespace cinch::policy
