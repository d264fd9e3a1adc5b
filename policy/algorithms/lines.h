// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/algorithms/algorithm.h"

/// The functions that the table in algorithms.cpp points to; Algorithm says what each does. They
/// are in fixed.cpp, a file for each adaptive algorithm (budget's words in budget_menu.cpp), and
/// settings.cpp (reading policy files).
namespace cinch::policy {

std::string default_words(const Settings& settings);
codecs::CodecSpec default_codec(const Settings& settings);

std::string division_words(const Settings& settings);
codecs::CodecSpec division_codec(const Settings& settings);

std::string actnn_words(const Settings& settings);
void read_actnn(const nlohmann::json& file, Settings& settings);
std::optional<Fault> actnn_fault(const nlohmann::json& file, const Settings& settings);
std::unique_ptr<Director> make_actnn_director(const Settings& settings);
bool is_level_0(const Settings& settings);

std::string blpa_words(const Settings& settings);
void read_blpa(const nlohmann::json& file, Settings& settings);
codecs::CodecSpec blpa_codec(const Settings& settings);

std::string acgc_words(const Settings& settings);
void read_acgc(const nlohmann::json& file, Settings& settings);
std::optional<Fault> acgc_fault(const nlohmann::json& file, const Settings& settings);
std::unique_ptr<Director> make_acgc_director(const Settings& settings);

std::string comet_words(const Settings& settings);
void read_comet(const nlohmann::json& file, Settings& settings);
std::unique_ptr<Director> make_comet_director(const Settings& settings);

std::string budget_words(const Settings& settings);
void read_budget(const nlohmann::json& file, Settings& settings);
std::optional<Fault> budget_fault(const nlohmann::json& file, const Settings& settings);
std::unique_ptr<Director> make_budget_director(const Settings& settings);

std::string lossless_words(const Settings& settings);

}  // namespace cinch::policy
