// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "policy/operators/operand.h"
#include "policy/policy.h"

namespace cinch::policy {

/// What one use requires of the way its storage is held.
struct Need {
  /// In increasing order. The highest level among the uses of an entry decides.
  enum class Level : std::uint8_t { nothing, sign, interval, approximate, exact, keep };
  Level level = Level::exact;
  /// `interval`, `approximate`: the codec asked for. `exact`: a codec worth trying, or an empty
  /// name.
  codecs::CodecSpec spec;
  /// Why the storage is kept raw, if it is.
  std::string_view reason;
  bool chosen = false;  ///< `spec` is the adaptive policy's choice
  /// The data may be a mask in disguise (dropout's noise): codec two_valued is worth a try first.
  bool may_be_mask = false;
  /// Of a choice: the codec of the first matching rule if that is advice (Rule::From::advice),
  /// which lives as long as the settings; else null.
  const codecs::CodecSpec* advice = nullptr;
};

/// The need of `use` under `settings`: by the first matching rule, else by the algorithm.
/// @param choice The adaptive policy's choice for activations; null where there is none
Need need_of(const Settings& settings, const Use& use, const OperandFact& fact,
             const Choice* choice = nullptr);

/// The need of one read of `use`, which a compiled region saved. Rules may name the region or the
/// operator behind it.
Need need_of(const Settings& settings, const Use& use, const BackwardRead& read,
             const OperandFact& fact);

}  // namespace cinch::policy
