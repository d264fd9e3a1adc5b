// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/algorithms/algorithm.h"

/// The lines of "budget" and "auto" in the table of algorithms.
namespace cinch::policy {

std::string budget_words(const Settings& settings);
std::string auto_words(const Settings& settings);
void read_budget(const nlohmann::json& file, Settings& settings);
void read_auto(const nlohmann::json& file, Settings& settings);
std::optional<Fault> budget_fault(const nlohmann::json& file, const Settings& settings);
std::unique_ptr<Director> make_budget_director(const Settings& settings);

}  // namespace cinch::policy
