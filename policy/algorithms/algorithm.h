// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "codecs/codec.h"
#include "policy/adapting/director.h"
#include "policy/policy.h"

namespace cinch::policy {

/// An error in a policy file that the schema can't express.
struct Fault {
  std::string pointer;  ///< JSON pointer to a member that the file has
  std::string message;
};

/// What a policy file's "policy" names. A new algorithm needs a line in algorithms.cpp, the
/// functions that this line points to, and its part of configs/policy.schema.json.
struct Algorithm {
  std::string_view name;
  /// Describes to the user what the algorithm does to activations.
  std::string (*words)(const Settings& settings);
  /// Reads its own fields of the file, after all others. @pre the file satisfies the schema
  void (*read)(const nlohmann::json& file, Settings& settings) = nullptr;
  std::optional<Fault> (*fault)(const nlohmann::json& file, const Settings& settings) = nullptr;
  /// Makes the director, which changes choices during training; null if the algorithm never adapts.
  std::unique_ptr<Director> (*director)(const Settings& settings) = nullptr;
  /// The codec for inputs of convolutions, linear layers and norms of feature maps; null where a
  /// director chooses, or these stay as they are.
  codecs::CodecSpec (*codec)(const Settings& settings) = nullptr;
  /// Whether the algorithm does nothing under these settings.
  bool (*does_nothing)(const Settings& settings) = nullptr;
  /// Approximates nothing by itself: all floats are held losslessly.
  bool exact = false;
  /// Takes nothing until memory runs out.
  bool idle = false;
  /// Derives values unless the file says otherwise (DeriveSettings).
  bool derives = false;
  /// Unless the file says otherwise (DeriveSettings). Not where noise is predicted by trials of
  /// group_quant.
  bool signs_in_sources = false;
  /// Takes the rules of the preset "default" as advice (Rule::From::advice).
  bool takes_advice = false;
};

/// All algorithms, in the order in which they are shown.
std::span<const Algorithm> algorithms() noexcept;

/// The algorithm that `settings.policy` names; "off" for an unknown name.
const Algorithm& algorithm_of(const Settings& settings) noexcept;

/// Whether no codec may approximate under these settings, not even by a rule: "lossless".
bool keeps_all_exact(const Settings& settings) noexcept;

/// A number as descriptions and messages show it: "0.01", "4".
std::string number_in_words(double value);

}  // namespace cinch::policy
