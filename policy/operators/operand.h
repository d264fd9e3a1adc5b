// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/formats/masks/interval.h"
#include "policy/entry.h"

namespace cinch::policy {

/// Kind of an operand, by PyTorch's derivative formulas.
enum class OperandKind : std::uint8_t {
  unknown,     ///< nothing is known: exact or kept, never lossy by guess
  activation,  ///< values that a lossy codec may approximate, if the policy says so
  /// The same, but no layer's activation: a factor of a product and the like, in which gradients
  /// are linear or smooth. Dropout's noise is one.
  factor,
  /// The argument of sin, cosh and the like: a factor of which the absolute error counts, however
  /// large the values are.
  angle,
  base,    ///< of a power: a factor where the exponent is a whole number from 1, else unknown
  normed,  ///< of a norm: a factor where its order is a number from 2, else unknown
  /// Of scatter_reduce: unread where it is linear (sum, mean), or the largest or least, and how it
  /// compares is held instead; else unknown.
  reduced,
  /// Asked for nothing but how it compares with another operand, or with the result: unread where
  /// that is held instead, else exact.
  compared,
  /// Never lossy, for the reasons by which operand.cpp groups them: statistics, log-sum-exp,
  /// parameters, what is compared or divided by, poles, matrices that may be close to singular
  /// ones.
  exact,
  /// The same, unless a rule names the operator without wildcards: its author knows the values.
  /// Log-probabilities, where an error is a relative one of a probability: little where there are
  /// many classes, all of the gradient where a class is certain.
  exact_unless_named,
  window_index  ///< max-pool's indices into the input plane
};

/// The interval that backward compares an operand with. a and b are the operator's second and third
/// argument. Of `closed`, `at_least` and `at_most`, which are clamp's, `Use` says whether the ends
/// are left out.
enum class Interval : std::uint8_t {
  none,
  between_3,        ///< -3 < x < 3
  open,             ///< a < x < b
  closed,           ///< a <= x <= b, of which one may be missing
  at_least,         ///< a <= x
  at_most,          ///< x <= a
  above,            ///< a < x
  closed_around_0,  ///< -a <= x <= a
};

/// What PyTorch's backward does with one saved operand of one operator; no policy changes it.
struct OperandFact {
  codecs::Reads reads = codecs::Reads::values;
  OperandKind kind = OperandKind::unknown;
  /// True for feature maps: (N, C, plane…). False for rows of features.
  bool spatial = false;
  /// Number of trailing dimensions that form a plane when `spatial`; 0 stands for rank - 2.
  std::uint8_t plane_rank = 0;
  /// True for what attention has as (sample, head, token, feature).
  bool is_heads = false;
  /// For `Reads::interval`: which one, by the operator's second and third argument.
  Interval interval = Interval::none;
  /// For `Reads::values`: backward also asks of each value whether x > 0, so the sign of an
  /// approximated value has to be exact.
  bool exact_sign = false;
  /// Exact values that may be a mask's, such as targets of 0 and 1.
  bool may_be_mask = false;
  /// Backward computes gradients of the operator's other operands of it, not its own.
  bool for_others = false;
  /// The derivative has poles at complex numbers: only real values tolerate approximation.
  bool has_poles = false;
};

/// The fact for `op` ("aten::native_batch_norm") and `operand`: the schema's argument name
/// ("input"), or "result", "result1", … for outputs by their position among the op's returns.
/// In-place variants ("aten::relu_") share the facts of their operator. Unlisted pairs give the
/// default fact: values, unknown.
OperandFact operand_fact(std::string_view op, std::string_view operand) noexcept;

/// The fact for `read`, about values: the code of a compiled region's backward is Python's, which
/// is always given values.
OperandFact fact_of(const BackwardRead& read) noexcept;

/// The interval in which backward tests whether each element of `use` lies; nothing where it reads
/// something else, or where the bounds are not known. Numbers are rounded to the element type, as
/// PyTorch does; where its kernels differ in that, only those are known that the type has.
std::optional<codecs::IntervalBounds> interval_of(const OperandFact& fact, const Use& use) noexcept;

/// The kind of `use`'s operand: `base` is settled by the exponent, `normed` by the order,
/// `has_poles` by the type; what is `compared`, and what is magnified, is exact.
OperandKind kind_of(const OperandFact& fact, const Use& use) noexcept;

/// What the backward of `use`'s operator reads: `values` for an interval with unknown bounds,
/// `nothing` for what is `reduced` linearly, and where how it compares is held instead.
codecs::Reads reads_of(const OperandFact& fact, const Use& use) noexcept;

}  // namespace cinch::policy
