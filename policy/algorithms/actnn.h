// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/algorithms/algorithm.h"

/// ActNN's line of the table of algorithms.
namespace cinch::policy {

std::string actnn_words(const Settings& settings);
void read_actnn(const nlohmann::json& file, Settings& settings);
std::optional<Fault> actnn_fault(const nlohmann::json& file, const Settings& settings);
std::unique_ptr<Director> make_actnn_director(const Settings& settings);
bool is_level_0(const Settings& settings);

}  // namespace cinch::policy
