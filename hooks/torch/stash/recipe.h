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

/// How an entry's values follow from those of others (docs/derived.md): an expression of operators
/// over sources and constants, as they were in the forward. Float32 in the host's memory, dense;
/// results lie in memory as the derived tensor does.
///
/// Nobody changes a recipe once it belongs to an entry. Its holds on sources are the stash's to
/// give up.
struct Recipe {
  /// An entry that values are taken from. The stash lists the use among the entry's own.
  struct Source {
    Entry* entry = nullptr;
    Use use;
    /// In-place changes of the tensor that was saved, and how many there were by then.
    c10::VariableVersion version{c10::VariableVersion::DISABLED};
    std::uint32_t saved_version = 0;

    bool is_as_saved() const { return version.current_version() == saved_version; }
    /// First element in the entry's storage.
    const void* values_in(const c10::Storage& storage) const;
  };

  enum class Operator : std::uint8_t {
    channel_norm,  ///< batch and group norm: codecs::scale_channels
    row_norm,      ///< layer norm: codecs::normalize_rows
    relu,
    gelu,
    silu,
    add,  ///< of two values, as those below
    sub,
    mul,
    div,
    max_pool,  ///< elements of another source, by index: codecs::gather_planes
  };

  /// A layer norm's mean or reciprocal deviation: a source, or a small tensor that nobody changes.
  struct Statistic {
    int source = -1;
    at::Tensor held;
  };

  struct Step;

  /// Where an operator takes a value: a source or a copied constant, and what is done to it first.
  struct Value {
    int source = -1;
    std::vector<float> constant;  ///< contiguous; where there is no source
    c10::DimVector sizes;         ///< of the source's tensor, or the constant's
    c10::DimVector strides;       ///< of the source's tensor
    std::vector<Step> steps;
  };

  struct Step {
    Operator op = Operator::relu;
    bool tanh = false;      ///< GELU's approximation
    bool reversed = false;  ///< of two values: `other` is the left one
    std::unique_ptr<Value> other;
    codecs::ChannelOrder order;
    codecs::PoolOrder pool;
    int indices = -1;  ///< of `max_pool`: which source
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
  std::array<Source, most_sources> all_sources;  // their uses are links of lists: they stay
  std::size_t source_count = 0;
  Value value;           ///< of at least one step
  c10::DimVector sizes;  ///< of the derived tensor, as it fills its storage
  c10::DimVector strides;
  std::int64_t elements = 0;
  int threads = 0;            ///< of ATen's, on which roundings of vectorized functions may depend
  std::uint32_t version = 0;  ///< in-place changes of the value before it was saved
  std::uint64_t nanoseconds = 0;  ///< that computing one of its kind took
  std::uint8_t depth = 1;         ///< recipes on the way to values that are stored; 0: not used
  // Found out when the entry is settled.
  bool is_ready = false;      ///< the sources have values for good
  bool approximates = false;  ///< some have not their own

  std::span<Source> sources() noexcept { return {all_sources.data(), source_count}; }
  std::span<const Source> sources() const noexcept { return {all_sources.data(), source_count}; }

  /// Equal for recipes that compute alike: which operators, over which extents.
  std::vector<std::int64_t> key() const;

  /// The report's word for it: "derived from aten::native_layer_norm input".
  std::string label() const;

  /// Bytes of its own constants.
  std::size_t constant_bytes() const noexcept;

  /// Whether the value is 0 where a mask's bit is clear: the last operator is ReLU.
  bool ends_in_relu() const noexcept { return value.steps.back().op == Operator::relu; }

  /// Computes the value. @param values First element of each source's values
  /// @param mask One bit an element where `ends_in_relu`; null: what is positive
  /// @param out `elements` floats, which overlap no source
  /// @throws c10::Error when there is no memory for what lies between
  void compute(std::span<const void* const> values, const std::byte* mask, float* out) const;
};

}  // namespace cinch::hooks
