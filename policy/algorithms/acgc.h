// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/algorithms/algorithm.h"

/// AC-GC's line of the table of algorithms.
namespace cinch::policy {

std::string acgc_words(const Settings& settings);
void read_acgc(const nlohmann::json& file, Settings& settings);
std::optional<Fault> acgc_fault(const nlohmann::json& file, const Settings& settings);
std::unique_ptr<Director> make_acgc_director(const Settings& settings);

}  // namespace cinch::policy
