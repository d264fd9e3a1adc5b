// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "codecs/codec.h"
#include "policy/director.h"
#include "policy/policy.h"

namespace cinch::policy {

/// What is wrong with a policy file that its schema can't say.
struct Fault {
  std::string pointer;  ///< JSON pointer to something that the file has
  std::string message;
};

/// What a policy file's "policy" names. A new one takes a line in algorithms.cpp, what that line
/// points to, and its part of configs/policy.schema.json.
struct Algorithm {
  std::string_view name;
  /// What it does to activations, in sentences for people.
  std::string (*words)(const Settings& settings);
  /// Takes up its own fields of the file, after all others. @pre the file keeps to the schema
  void (*read)(const nlohmann::json& file, Settings& settings) = nullptr;
  std::optional<Fault> (*fault)(const nlohmann::json& file, const Settings& settings) = nullptr;
  /// What decides anew as training goes; null where nothing does.
  std::unique_ptr<Director> (*director)(const Settings& settings) = nullptr;
  /// What holds the inputs of convolutions, linear layers and normalizations; null where a director
  /// says that, or nothing is to.
  codecs::CodecSpec (*codec)(const Settings& settings) = nullptr;
  /// Whether these settings of it leave all as it is.
  bool (*does_nothing)(const Settings& settings) = nullptr;
  /// Approximates nothing by itself: all floats are held losslessly.
  bool exact = false;
  /// Takes nothing until memory runs out.
  bool idle = false;
};

/// All, in the order in which they are shown.
std::span<const Algorithm> algorithms() noexcept;

/// The one that `settings.policy` names; "off" where none is called so.
const Algorithm& algorithm_of(const Settings& settings) noexcept;

/// Whether no codec of these settings may approximate, whoever asks: "lossless".
bool keeps_all_exact(const Settings& settings) noexcept;

/// A number as words and messages have it: "0.01", "4".
std::string number_in_words(double value);

}  // namespace cinch::policy
