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
  enum class Level : std::uint8_t { nothing, sign, approximate, exact, keep };
  Level level = Level::exact;
  /// `approximate`: the codec asked for. `exact`: a codec worth trying, or an empty name.
  codecs::CodecSpec spec;
  /// Why the use's storage stays as it is, should it stay.
  std::string_view reason;
};

/// What `use` needs under `settings`: the first matching rule's word, else the algorithm's.
Need need_of(const Settings& settings, const Use& use, const OperandFact& fact);

}  // namespace cinch::policy
