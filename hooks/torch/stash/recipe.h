// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/DimVector.h>

#include "codecs/norms.h"
#include "codecs/pooling.h"
#include "hooks/torch/stash/entry.h"

namespace cinch::hooks {

/// How to compute an entry's values from those of other entries (docs/derived.md): an expression of
/// operators over sources and constants, as they were in the forward. Float32, bfloat16 or float16,
/// dense, in the host's memory; results have the memory layout of the derived tensor.
///
/// The expression does not change once the recipe belongs to an entry. The stash gives up the holds
/// on sources.
struct Recipe {
  /// An entry whose values are read. `use` is in the entry's list of uses.
  struct Source {
    Entry* entry = nullptr;
    Use use;
    /// The version counter of the saved tensor, and its value at the save.
    c10::VariableVersion version{c10::VariableVersion::DISABLED};
    std::uint32_t saved_version = 0;

    bool is_as_saved() const { return version.current_version() == saved_version; }
    /// The first element of the use, in the entry's `storage`.
    const void* values_in(const c10::Storage& storage) const;
  };

  enum class Operator : std::uint8_t {
    channel_norm,  ///< batch and group norm: codecs::scale_channels
    row_norm,      ///< layer norm: codecs::normalize_rows
    relu,
    gelu,  ///< this and the next ones: PyTorch's activation functions, with Step::scalars
    silu,
    leaky_relu,
    elu,
    hardswish,
    hardtanh,
    hardsigmoid,
    mish,
    softplus,
    add,  ///< of two values, as are sub, mul and div
    sub,
    mul,
    div,
    max_pool,  ///< picks elements by the indices in another source: codecs::gather_planes
    cast,      ///< to the step's element type
  };

  /// A layer norm's mean or reciprocal deviation: a source, or a small tensor that nobody changes.
  struct Statistic {
    int source = -1;
    at::Tensor held;
  };

  struct Step;

  /// A value in the expression: a source or a copied constant, to which steps are applied in order.
  struct Value {
    int source = -1;              ///< index; -1: a constant
    std::vector<float> constant;  ///< contiguous
    c10::DimVector sizes;         ///< of the source's tensor, or the constant's
    c10::DimVector strides;       ///< of the source's tensor
    c10::ScalarType source_type = c10::ScalarType::Float;
    std::vector<Step> steps;

    /// Of the value, after all steps.
    c10::ScalarType type() const;
  };

  struct Step {
    Operator op = Operator::relu;
    c10::ScalarType type = c10::ScalarType::Float;  ///< of the result
    bool tanh = false;                              ///< GELU's approximation
    /// An activation function's parameters, in the order of its schema.
    std::array<double, 3> scalars = {};
    bool reversed = false;  ///< of two values: `other` is the left one
    std::unique_ptr<Value> other;
    codecs::ChannelOrder order;
    codecs::PoolOrder pool;
    int indices = -1;  ///< of `max_pool`: the source of the indices
    std::int64_t rows = 0;
    std::int64_t row = 0;
    Statistic mean;
    Statistic rstd;
    std::vector<float> scale;  ///< of norms: factors, copied or computed
    std::vector<float> shift;
  };

  Recipe() = default;
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  static constexpr std::size_t most_sources = 4;
  std::array<Source, most_sources> all_sources;  // never moved: entries' lists link to the uses
  std::size_t source_count = 0;
  Value value;           ///< of at least one step
  c10::DimVector sizes;  ///< of the derived tensor, as it fills its storage
  c10::DimVector strides;
  std::int64_t elements = 0;
  c10::ScalarType type = c10::ScalarType::Float;
  int threads = 0;                ///< of ATen; roundings of vectorized kernels may depend on it
  std::uint32_t version = 0;      ///< in-place changes of the value before it was saved
  std::uint64_t nanoseconds = 0;  ///< time to compute one recipe of this kind
  std::uint8_t depth = 1;         ///< recipes between its values and stored ones; 0: not used
  // Set when the entry is settled.
  bool is_ready = false;      ///< all sources have values that will not change
  bool approximates = false;  ///< some sources have approximated values

  std::span<Source> sources() noexcept { return {all_sources.data(), source_count}; }
  std::span<const Source> sources() const noexcept { return {all_sources.data(), source_count}; }

  /// Describes the computation (operators and extents); equal for recipes of one kind.
  std::vector<std::int64_t> key() const;

  /// The report's name for it: "derived from aten::native_layer_norm input".
  std::string label() const;

  /// Bytes of its constants.
  std::size_t constant_bytes() const noexcept;

  /// Bytes of the derived tensor.
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(elements) * c10::elementSize(type);
  }

  /// Computes the value. @param values First element of each source's values
  /// @param mask One bit an element, for the ReLU that may be the last step; null: compute it, as
  ///   the other ReLUs
  /// @param out `elements` of `type`, which overlap no source
  /// @throws c10::Error when there is no memory for intermediate values
  void compute(std::span<const void* const> values, const std::byte* mask, void* out) const;
};

inline c10::ScalarType Recipe::Value::type() const {
  return steps.empty() ? source_type : steps.back().type;
}

}  // namespace cinch::hooks
