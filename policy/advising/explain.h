// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "policy/policy.h"

namespace cinch::policy {

/// Describes a policy to the user, one sentence a line: what is approximated and how closely,
/// what stays exact, what is measured and when, and what it costs.
std::string explain(const Settings& settings);

/// The rules of `settings` in their order, each in one line.
std::string rules_in_words(const Settings& settings);

/// "group_quant at 4 bits in groups of 64, dithered"
std::string codec_in_words(const codecs::CodecSpec& spec);

}  // namespace cinch::policy
