// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/algorithms/algorithm.h"

/// The algorithms that never adapt: their lines of the table.
namespace cinch::policy {

std::string division_words(const Settings& settings);
codecs::CodecSpec division_codec(const Settings& settings);

std::string blpa_words(const Settings& settings);
void read_blpa(const nlohmann::json& file, Settings& settings);
codecs::CodecSpec blpa_codec(const Settings& settings);

std::string lossless_words(const Settings& settings);

}  // namespace cinch::policy
