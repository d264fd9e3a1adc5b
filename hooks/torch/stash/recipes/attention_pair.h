// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace cinch::hooks {

/// What fused attention gives its backward: its output, and the log-sum-exp of each row of scores.
enum class AttentionPart : std::uint8_t { output, log_sum_exp };

/// The two parts of one attention, both of which have recipes. One call computes both. Backward
/// takes exp(q.k - log-sum-exp) and subtracts what the output gives: of approximated q, k and v it
/// needs the output and the log-sum-exp of just these (docs/derived.md, "Attention"). Shared by
/// both recipes; the stash's lock guards it.
struct AttentionPair {
  /// What becomes of a part; open until its entry is planned.
  enum class Fate : std::uint8_t { open, derived, stored };

  struct Half {
    Fate fate = Fate::open;
    /// Computed along with the other part, until it is read. Undefined: it was not.
    at::Tensor left;
    std::optional<c10::Stream>
        left_in;  ///< the stream in whose order it is valid; none on the host
  };

  std::array<Half, 2> halves;

  /// Whether a part is stored. The other one is then, too.
  bool is_stored() const noexcept {
    return halves[0].fate == Fate::stored || halves[1].fate == Fate::stored;
  }

  Half& operator[](AttentionPart part) noexcept { return halves[static_cast<std::size_t>(part)]; }
};

constexpr AttentionPart other_part(AttentionPart part) noexcept {
  return part == AttentionPart::output ? AttentionPart::log_sum_exp : AttentionPart::output;
}

}  // namespace cinch::hooks
