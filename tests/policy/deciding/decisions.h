// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "policy/policy.h"
#include "tests/policy/entry_builder.h"

/// What tests of decisions have in common.
namespace cinch::policy {

using Action = Decision::Action;
using Type = codecs::ElementType;
using SignedValues = codecs::SignedValues;
using Extent = std::array<std::int64_t, 3>;

inline Policy preset(std::string_view name) {
  return Policy(std::get<Settings>(load_settings(name)));
}

/// DIVISION with these rules alone.
inline Policy with_rules(const std::string& rules) {
  const auto result = parse_settings(
      R"({"version":1,"policy":"division","preset_rules":false,"rules":[)" + rules + "]}", "test");
  if (const auto* error = std::get_if<PolicyError>(&result)) ADD_FAILURE() << error->to_string();
  return Policy(std::get<Settings>(result));
}

inline Decision division(const EntryBuilder& entry) {
  return preset("division").decide(entry.build());
}
inline Decision lossless(const EntryBuilder& entry) {
  return preset("lossless").decide(entry.build());
}

/// A rule that gives every operand this codec.
inline Policy all_with(const std::string& codec) {
  return with_rules(R"({"match":{"op":"*"},"codec":{"name":)" + codec + "}}");
}

inline std::vector<std::string> codec_names(const Decision& decision) {
  std::vector<std::string> names;
  for (const auto& candidate : decision.candidates) names.push_back(candidate.spec.name);
  return names;
}

}  // namespace cinch::policy
