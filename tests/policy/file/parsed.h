// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include <gtest/gtest.h>

#include "policy/policy.h"

namespace cinch::policy {

/// The settings of a file's text, which has no fault.
inline Settings accepted(std::string_view text) {
  const auto result = parse_settings(text, "p.json");
  if (const auto* error = std::get_if<PolicyError>(&result)) {
    ADD_FAILURE() << error->to_string();
    return {};
  }
  return std::get<Settings>(result);
}

/// What is wrong with a file's text, or "accepted".
inline std::string refused(std::string_view text) {
  const auto result = parse_settings(text, "p.json");
  const auto* error = std::get_if<PolicyError>(&result);
  return error == nullptr ? "accepted" : error->to_string();
}

}  // namespace cinch::policy
