// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/algorithms/algorithm.h"

/// What the lines of the table of algorithms point to (Algorithm says what each function does):
/// fixed.cpp and a file for each that adapts; what they read of a policy file is in settings.cpp.
namespace cinch::policy {

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
std::string auto_words(const Settings& settings);
void read_auto(const nlohmann::json& file, Settings& settings);
std::unique_ptr<Director> make_budget_director(const Settings& settings);  // of both

std::string lossless_words(const Settings& settings);

}  // namespace cinch::policy
