// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "policy/operand.h"
#include "policy/policy.h"

namespace cinch::policy {

/// What one use asks of the way its storage is held.
struct Need {
  /// In growing order: an entry gets the highest level among its uses.
  enum class Level : std::uint8_t { nothing, sign, interval, approximate, exact, keep };
  Level level = Level::exact;
  /// `interval`, `approximate`: the codec asked for. `exact`: a codec worth trying, or an empty
  /// name.
  codecs::CodecSpec spec;
  /// Why the use's storage stays as it is, should it stay.
  std::string_view reason;
  bool chosen = false;  ///< `spec` is the adaptive policy's choice
};

/// What `use` needs under `settings`: the first matching rule's word, else the algorithm's.
/// @param choice What an adaptive policy says of activations; null where it has no say
Need need_of(const Settings& settings, const Use& use, const OperandFact& fact,
             const Choice* choice = nullptr);

}  // namespace cinch::policy
