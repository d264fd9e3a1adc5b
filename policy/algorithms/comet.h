// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/algorithms/algorithm.h"

/// COMET's line of the table of algorithms.
namespace cinch::policy {

std::string comet_words(const Settings& settings);
void read_comet(const nlohmann::json& file, Settings& settings);
std::unique_ptr<Director> make_comet_director(const Settings& settings);

}  // namespace cinch::policy
