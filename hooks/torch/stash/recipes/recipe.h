// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include "codecs/arithmetic/norms.h"
#include "codecs/arithmetic/pooling.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/source_errors.h"
#include "hooks/torch/stash/recipes/attention_pair.h"
#include "hooks/torch/stash/saved/layout.h"
#include "hooks/torch/stash/saved/words.h"

namespace cinch::hooks {

class Arithmetic;

/// How to compute an entry's values from those of other entries (docs/derived.md): an expression of
/// operators over sources and constants, as they were in the forward. Float32, float64, bfloat16 or
/// float16, all on one device; what is computed has no gaps.
///
/// The expression does not change once the recipe belongs to an entry. The stash gives up the holds
/// on sources.
struct Recipe {
  /// An entry whose values are read. `use` is in the entry's list of uses.
  struct Source {
    Entry* entry = nullptr;
    RecipesUse use;
    /// The version counter of the saved tensor, and its value at the save.
    c10::VariableVersion version{c10::VariableVersion::DISABLED};
    std::uint32_t saved_version = 0;
    /// A function that the recipe applies to it first has a bias if it is approximated
    /// (Arithmetic::apply_without_bias).
    bool is_curved = false;

    bool is_as_saved() const { return version.current_version() == saved_version; }
    /// The first element of the use, in the entry's `storage`.
    const void* values_in(const c10::Storage& storage) const;
  };

  enum class Operator : std::uint8_t {
    channel_norm,  ///< batch and group norm: codecs::scale_channels
    row_norm,      ///< layer norm: codecs::normalize_rows; on a CUDA device also RMS norm
    relu,
    gelu,  ///< this and the next ones: PyTorch's operators of one tensor
    silu,
    tanh,
    pow,               ///< by the first of Step::numbers
    function,          ///< any other: Step::call
    sigmoid_backward,  ///< of two values, as are those up to prelu
    tanh_backward,
    add,  ///< with the first of Step::numbers as alpha, if there are any, as sub
    sub,
    mul,
    div,
    prelu,
    addcmul,          ///< of three values; the first of Step::numbers is the factor
    max_pool,         ///< picks elements by the indices in another source: codecs::gather_planes
    copy,             ///< of other strides, or to the step's element type
    roll,             ///< by Step::shifts
    gather,           ///< picks places along Step::dim by Step::index
    dropout,          ///< of a value and a mask of booleans, by the first of Step::numbers
    attention,        ///< fused, of a query; `others` are key, value and perhaps a mask
    flash_attention,  ///< CUDA's, as are the next ones
    efficient_attention,
    cudnn_attention,
  };

  /// Whether kernels of our own compute it, in float32, and not PyTorch's.
  static constexpr bool computes_in_floats(Operator op) noexcept {
    return op <= Operator::relu || op == Operator::max_pool;
  }

  /// Whether E[f(x)] is not f(E[x]), and codecs/arithmetic/curvature.h knows by how much it
  /// differs.
  static constexpr bool is_curved(Operator op) noexcept {
    return op == Operator::gelu || op == Operator::silu;
  }

  static constexpr bool is_attention(Operator op) noexcept { return op >= Operator::attention; }

  /// A norm's means or reciprocal deviations: a source, or a small tensor that nobody changes.
  struct Statistic {
    int source = -1;
    at::Tensor held;

    bool is_known() const { return source >= 0 || held.defined(); }
  };

  struct Step;

  /// A value in the expression. It begins as a source, a copied constant, several values joined
  /// along a dimension, or another value seen through a view. Steps are applied to that in order.
  struct Value {
    int source = -1;              ///< index; -1: none
    std::vector<float> constant;  ///< contiguous; in the host's memory
    at::Tensor on_device;         ///< a constant of a recipe on a CUDA device, or a number
    std::vector<Value> parts;     ///< what is joined
    std::int64_t joined = 0;      ///< along this dimension
    std::unique_ptr<Value> viewed;
    std::int64_t offset = 0;  ///< of the view of a source or value, in elements
    Layout start;             ///< before any step
    c10::ScalarType start_type = c10::ScalarType::Float;
    std::vector<Step> steps;
    Layout result;  ///< of each step

    /// After all steps.
    c10::ScalarType type() const;
    const Layout& layout() const { return steps.empty() ? start : result; }
    /// Whether it needs memory of its own: it is no source or constant, nor a view of one.
    bool is_computed() const { return !steps.empty() || !parts.empty(); }
  };

  /// Writes what one of PyTorch's operators gives of `in`. `out` has the result's sizes.
  using Call = void (*)(const Step& step, const at::Tensor& in, at::Tensor& out);

  struct Step {
    Operator op = Operator::relu;
    c10::ScalarType type = c10::ScalarType::Float;  ///< of the result
    bool tanh = false;                              ///< GELU's approximation
    Call call = nullptr;                            ///< of `function`
    bool resizes = false;                           ///< the same
    c10::SmallVector<double, 4> numbers;            ///< parameters
    /// Whether a small error of the operand may become a large one of the result.
    bool magnifies = false;
    /// Whether its last bit on the host depends on how many threads MKL takes at the moment.
    bool rounds_by_threads = false;
    /// The operands behind the first one.
    std::vector<Value> others;
    bool reversed = false;  ///< of two values: the other one is the left one
    bool causal = false;    ///< of attention, whose scale is the first number; 0: PyTorch's
    AttentionPart part = AttentionPart::output;  ///< of attention: which of its results
    /// Of a roll: how far each dimension's elements move towards the end, from 0 to its size.
    c10::DimVector shifts;
    at::Tensor index;           ///< of a gather: of one dimension
    bool shares_index = false;  ///< with an earlier recipe, whose constant it is
    std::int64_t dim = 0;
    codecs::ChannelOrder order;
    codecs::PoolOrder pool;
    int indices = -1;       ///< of `max_pool`: the source of the indices
    std::int64_t rows = 0;  ///< of norms: how many means there are
    std::int64_t row = 0;   ///< elements of each; not of batch norm
    /// Of layer norms, and of all norms on a CUDA device; RMS norm has no mean.
    Statistic mean;
    Statistic rstd;
    std::vector<float> scale;  ///< of norms in the host's memory: factors, copied or computed
    std::vector<float> shift;
    /// The same: all weights are 1 and all biases 0, as in a new model. Other roundings than
    /// PyTorch's do not show then, so what was proved with these says nothing of others.
    bool is_neutral = false;
    /// Of a batch norm in the host's memory, until the recipe is proved.
    std::vector<float> means;
    std::vector<float> deviations;
    at::Tensor weight;  ///< of norms on a CUDA device; undefined: none
    at::Tensor bias;

    /// A number that the program may leave out, for which 0 stands then.
    std::optional<double> given(std::size_t i) const {
      return numbers[i] == 0 ? std::nullopt : std::optional(numbers[i]);
    }
  };

  /// Whether elements move, so that the result can't lie where the operand does.
  static bool moves(const Step& step) noexcept {
    return step.op == Operator::roll || step.op == Operator::gather || step.resizes;
  }

  Recipe() = default;
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  static constexpr std::size_t most_sources = 8;
  std::array<Source, most_sources> all_sources;  // never moved: entries' lists link to the uses
  std::size_t source_count = 0;
  Value value;  ///< the derived tensor's, which fills its storage
  std::int64_t elements = 0;
  c10::ScalarType type = c10::ScalarType::Float;
  c10::Device device = c10::kCPU;  ///< where all of it lies
  /// On a CUDA device: the stream in whose order the constants are valid.
  std::optional<c10::Stream> made_on;
  int threads = 0;                ///< of ATen on the host; vectorized kernels may round by it
  std::uint32_t version = 0;      ///< in-place changes of the value before it was saved
  std::uint64_t nanoseconds = 0;  ///< time to compute one recipe of this kind
  std::uint8_t depth = 1;         ///< recipes between its values and stored ones; 0: not used
  /// Some bits may differ from PyTorch's, by no more than rounding (nearness.h). Serves entries
  /// that the policy approximates.
  bool is_near = false;
  bool needs_exact_sources = false;  ///< an operator magnifies errors
  bool gave_sides = false;           ///< to its source: Entry::sides
  /// Its sources are held until its entry is deleted, though that be stored. Guarded by the stash's
  /// lock.
  bool keeps_sources = false;
  /// What it computes has uses, so its sources are read. Guarded by the stash's lock.
  bool is_read = true;
  /// Of attention: the output's and the log-sum-exp's. Null if only the output has a recipe.
  std::shared_ptr<AttentionPair> pair;
  /// The program, or a backward, owned a source when the entry left the window; it may change it.
  bool has_owned_source = false;
  /// Attention's other part was to be stored when the entry left the window.
  bool other_is_stored = false;
  // Set when the entry is settled.
  bool is_ready = false;      ///< all sources have values that will not change
  bool approximates = false;  ///< `is_near`, or some sources have approximated values
  /// The signs of the ReLU that is the last step are those of the first source's codes.
  bool signs_in_source = false;

  std::span<Source> sources() noexcept { return {all_sources.data(), source_count}; }
  std::span<const Source> sources() const noexcept { return {all_sources.data(), source_count}; }

  /// Equal for recipes of one kind.
  struct Key {
    /// The operators and how they depend on each other; then the tensors' sizes and strides.
    Words words;
    std::size_t structure = 0;  ///< how many words are of the first sort
  };
  Key key() const;

  /// The report's name for it: "derived from aten::native_layer_norm input".
  std::string label() const;

  /// Whether it is fused attention, which takes much longer than decoding. It is the only step
  /// then.
  bool is_attention() const noexcept;

  /// @pre is_attention()
  AttentionPart part() const noexcept { return value.steps.front().part; }
  bool is_log_sum_exp() const noexcept {
    return is_attention() && part() == AttentionPart::log_sum_exp;
  }

  /// Bytes of its constants.
  std::size_t constant_bytes() const noexcept;

  /// Bytes of the derived tensor.
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(elements) * c10::elementSize(type);
  }

  /// Sets the sources' `is_curved` and `use.is_argument`. @pre the stash's lock is held if entries
  /// have the uses in their lists
  void mark_arguments() noexcept;

  /// Calls `visit` with each step of each value in the expression.
  void for_each_step(const std::function<void(const Step&)>& visit) const;

  enum class Tensors : std::uint8_t { constants, all };
  /// Calls `visit` with the constants of a recipe on a CUDA device, or with `all` tensors that it
  /// holds there: with means and deviations too, which nobody changes.
  void for_each(Tensors which, const std::function<void(at::Tensor&)>& visit);

  /// Computes the value. @param values First element of each source's values
  /// @param mask Signs, for the ReLU that may be the last step (Arithmetic::Inputs); null: compute
  ///   it, as the other ReLUs
  /// @param out `elements` of `type`, which overlap no source
  /// @param errors Of each source; empty: they are not known
  /// @param other Receives attention's other part, unless null; left undefined otherwise
  /// @throws c10::Error when there is no memory for intermediate values
  void compute(const Arithmetic& arithmetic, std::span<const void* const> values,
               const std::byte* mask, void* out, std::span<const SourceErrors> errors = {},
               at::Tensor* other = nullptr) const;
};

inline c10::ScalarType Recipe::Value::type() const {
  return steps.empty() ? start_type : steps.back().type;
}

/// The first one of `use` and those behind it that a recipe of attention made whose parts both have
/// recipes; null: there is none. @pre the stash's lock is held
const RecipesUse* use_by_pair(const Use* use);

}  // namespace cinch::hooks
