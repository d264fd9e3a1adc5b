// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/codec.h"
#include "policy/choice.h"

namespace cinch::policy {

/// Sizes and strides, in elements, of one tensor over a storage.
struct Geometry {
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;
  std::int64_t offset = 0;
};

/// What saved a storage.
enum class Origin : std::uint8_t {
  op,        ///< an operator of PyTorch's or an extension's
  compiled,  ///< a region that torch.compile compiled: one node, whatever operators are inside
  function,  ///< a custom autograd.Function
};

/// An operand as which the backward of a compiled region reads a saved tensor.
struct BackwardRead {
  std::string op;       ///< "aten::mm"
  std::string operand;  ///< "self"
  /// Whether the values have to be exact, whatever is known of that operand.
  bool exact = false;
};

/// One saving of a storage, as a policy sees it.
struct Use {
  /// "aten::convolution"; a Python autograd.Function's class name; "" unknown
  std::string_view op;
  std::string_view operand;  ///< "input", "result"; "" unknown
  bool is_output = false;
  codecs::ElementType type = codecs::ElementType::other;
  Geometry geometry;
  /// For max-pool indices: {D, H, W} of the pooled input's plane; zeros where unknown.
  std::array<std::int64_t, 3> index_extent = {0, 0, 0};
  Origin origin = Origin::op;
  /// For hardtanh, clamp and their like: the operator's second and third argument. NaN where one is
  /// not a number or not known.
  std::array<float, 2> numbers = {std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::quiet_NaN()};
  /// The PyTorch at hand gives a value at one of clamp's bounds no gradient.
  bool clamp_leaves_out_ends = false;
  /// For the base of a power: the exponent; for a norm's input: its order; 0 where unknown.
  float exponent = 0;
  /// For operands of scatter_reduce and its like: it sums or takes the mean.
  bool is_linear_reduction = false;
  /// For operands that backward only compares: how they compare is held beside them.
  bool is_comparison_held = false;
  /// A decomposition's backward magnifies an error of it, or refuses it (docs/operands.md,
  /// "Decompositions").
  bool is_magnified = false;
  /// A linear layer computed it, so that each feature has a scale of its own.
  bool is_linear_output = false;
  /// The elements are complex numbers, which is what `geometry` counts: each is two neighbours of
  /// `type`, the real and the imaginary part.
  bool is_complex = false;
  /// The numbers lie in memory with long gaps between them, which are zeros.
  bool has_gaps = false;
  /// Another entry is computed from its values: the use is the recipe's, at the operator's site.
  bool is_recipes = false;
  /// For such a use: GELU or SiLU of the values, and nothing else, is computed from them.
  bool is_argument = false;
  /// An operand of fused attention whose output and log-sum-exp backward computes anew of it.
  bool is_recomputed = false;
  /// For tensors that a compiled region saves; none if that is not known.
  std::span<const BackwardRead> reads = {};
};

/// One storage in the stash with all its uses, when the stash has become its only owner.
struct EntryDescription {
  std::size_t storage_bytes = 0;
  std::span<const Use> uses;
  /// Geometry of the tensor that covers the storage when no use does (the base of views); empty
  /// sizes where unknown.
  Geometry cover;
  /// The adaptive policy's choice for the entry's activations; null where there is none.
  const Choice* choice = nullptr;
  bool on_device = false;  ///< lies on a CUDA device
  bool derivable = false;  ///< there is a recipe for it (docs/derived.md)
  bool is_source = false;  ///< others are computed from it
};

/// How the stash shall hold an entry.
struct Decision {
  enum class Action : std::uint8_t {
    keep,    ///< hold the storage as it is
    drop,    ///< backward reads no value: hold nothing, restore zeros
    encode,  ///< try `candidates` in turn; keep when none can represent the data
  };
  struct Candidate {
    codecs::CodecSpec spec;
    codecs::Description what;  ///< layout over the whole storage, from its first byte
    double mixed_bits = 0;     ///< see Choice::mixed_bits
    std::shared_ptr<const std::vector<float>> channel_bounds =
        nullptr;  ///< see Choice::channel_bounds
  };
  /// When the held bytes of a CUDA tensor move to the host's memory; meaningless for host tensors.
  enum class Offload : std::uint8_t {
    never,
    under_pressure,  ///< when the device is out of memory
    always,          ///< as soon as the entry is settled
  };
  Action action = Action::keep;
  /// Static text, for the report's list of kept entries: why the entry is kept; for `encode`, why
  /// it is kept when no candidate can represent the data. Empty for `drop`.
  std::string_view reason;
  std::vector<Candidate> candidates;
  Offload offload = Offload::never;
};

}  // namespace cinch::policy
