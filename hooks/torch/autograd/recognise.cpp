// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognise.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/autograd/held_tensor.h"
#include "hooks/torch/autograd/members.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

// Factors that a recipe copies. Larger ones are not small beside the tensor.
constexpr std::int64_t most_factors = 65536;

// Recipes between a derived value and stored ones.
constexpr std::uint8_t most_depth = 2;

enum class Kind : std::uint8_t { other, layer_norm, batch_norm, group_norm, relu, gelu, silu, add };

Kind kind_of(const Node& node) {
  const auto classify = [](const std::type_info& type) {
    if (type == typeid(generated::NativeLayerNormBackward0)) return Kind::layer_norm;
    if (type == typeid(generated::NativeBatchNormBackward0)) return Kind::batch_norm;
    if (type == typeid(generated::NativeGroupNormBackward0)) return Kind::group_norm;
    if (type == typeid(generated::ReluBackward0)) return Kind::relu;
    if (type == typeid(generated::GeluBackward0)) return Kind::gelu;
    if (type == typeid(generated::SiluBackward0)) return Kind::silu;
    if (type == typeid(generated::AddBackward0)) return Kind::add;
    return Kind::other;
  };
  thread_local std::unordered_map<const std::type_info*, Kind> known;
  const std::type_info& type = typeid(node);
  const auto [it, is_new] = known.try_emplace(&type, Kind::other);
  if (is_new) it->second = classify(type);
  return it->second;
}

/// A dense float32 tensor that fills its storage, from the first byte.
struct Memory {
  c10::IntArrayRef sizes;
  c10::DimVector strides;
  std::int64_t elements = 0;
};

std::optional<Memory> memory_of(const at::Tensor& tensor) {
  const bool fits =
      tensor.scalar_type() == at::kFloat && tensor.is_cpu() && tensor.storage_offset() == 0 &&
      tensor.is_non_overlapping_and_dense() &&
      tensor.storage().nbytes() == static_cast<std::size_t>(tensor.numel()) * sizeof(float);
  if (!fits) return std::nullopt;
  return Memory{tensor.sizes(), c10::DimVector(tensor.strides()), tensor.numel()};
}

bool is_contiguous(const Memory& memory) {
  std::int64_t expected = 1;
  for (std::size_t i = memory.sizes.size(); i-- > 0;) {
    if (memory.sizes[i] != 1 && memory.strides[i] != expected) return false;
    expected *= memory.sizes[i];
  }
  return true;
}

/// How the memory runs over dimension 1; nothing where it is neither contiguous nor channels last.
std::optional<codecs::ChannelOrder> channel_order(const Memory& memory, std::int64_t tables) {
  if (memory.sizes.size() < 2) return std::nullopt;
  const std::int64_t samples = memory.sizes[0];
  const std::int64_t channels = memory.sizes[1];
  if (samples == 0 || channels == 0) return std::nullopt;
  const std::int64_t inner = memory.elements / samples / channels;
  if (is_contiguous(memory)) return codecs::ChannelOrder{samples, channels, inner, tables};
  std::int64_t expected = channels;
  bool last = memory.strides[1] == 1;
  for (std::size_t i = memory.sizes.size(); i-- > 2;) {
    last = last && (memory.sizes[i] == 1 || memory.strides[i] == expected);
    expected *= memory.sizes[i];
  }
  last = last && (samples == 1 || memory.strides[0] == expected);
  if (!last) return std::nullopt;
  return codecs::ChannelOrder{samples * inner, channels, 1, tables};
}

HeldTensor* held_by_stash(SavedVariable& saved) {
  auto* held = dynamic_cast<HeldTensor*>(members::hooks_of(saved).get());
  return held == nullptr || held->entry() == nullptr ? nullptr : held;
}

/// A recipe in the making; gives up what it holds unless it is taken.
class Maker {
 public:
  explicit Maker(const Memory& memory) : memory_(memory), recipe_(std::make_unique<Recipe>()) {
    recipe_->elements = memory.elements;
    recipe_->threads = at::get_num_threads();
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  ~Maker() {
    if (recipe_ != nullptr) stash().derivation().release_sources(*recipe_);
  }

  /// What `node` makes. @return whether that is known
  bool make(Node& node, std::uint32_t output) {
    if (output != 0) return false;
    const Kind kind = kind_of(node);
    switch (kind) {
      case Kind::relu:
        return make_relu(node);
      case Kind::gelu:
      case Kind::silu:
        return make_activation(node, kind);
      default:
        return make_norm(node, kind);
    }
  }

  /// The recipe, if it is known to give `actual`'s bits.
  std::unique_ptr<Recipe> take(std::uint32_t version, const Site& site, const at::Tensor& actual) {
    recipe_->version = version;
    const bool serves =
        recipe_->depth <= most_depth && stash().derivation().proves(*recipe_, site, actual);
    return serves ? std::move(recipe_) : nullptr;
  }

 private:
  using Step = Recipe::Step;
  using Operator = Recipe::Operator;

  bool make_relu(Node& node) {
    const Edge& input = node.next_edge(0);
    if (!input.is_valid() || input.input_nr != 0) return false;
    Node& before = *input.function;
    const bool made = kind_of(before) == Kind::add
                          ? make_sum(static_cast<generated::AddBackward0&>(before))
                          : make_norm(before, kind_of(before));
    if (made) step(Operator::relu);
    return made;
  }

  bool make_activation(Node& node, Kind kind) {
    const Lock lock(node);
    if (!lock) return false;
    auto* gelu = kind == Kind::gelu ? &static_cast<generated::GeluBackward0&>(node) : nullptr;
    SavedVariable& input =
        gelu != nullptr ? gelu->self_ : static_cast<generated::SiluBackward0&>(node).self_;
    if (!hold_alike(input)) return false;
    step(gelu != nullptr ? Operator::gelu : Operator::silu).tanh =
        gelu != nullptr && gelu->approximate == "tanh";
    return true;
  }

  // A norm's result and a value that is held.
  bool make_sum(generated::AddBackward0& node) {
    if (!node.alpha.equal(1) || node.num_outputs() != 2) return false;
    for (const auto& [first, second] : {std::pair{0U, 1U}, std::pair{1U, 0U}}) {
      const Edge& norm = node.next_edge(first);
      const Edge& other = node.next_edge(second);
      if (!norm.is_valid() || !other.is_valid() || norm.input_nr != 0 || other.input_nr != 0) {
        return false;
      }
      if (kind_of(*other.function) != Kind::relu) continue;
      if (!make_norm(*norm.function, kind_of(*norm.function))) {
        if (recipe_->source_count != 0) return false;
        continue;
      }
      const Lock lock(*other.function);
      if (!lock) return false;
      auto& relu = static_cast<generated::ReluBackward0&>(*other.function);
      const auto held = hold_alike(relu.result_);
      if (!held) return false;
      step(Operator::add).other = *held;
      return true;
    }
    return false;
  }

  bool make_norm(Node& node, Kind kind) {
    const Lock lock(node);
    if (!lock) return false;
    switch (kind) {
      case Kind::layer_norm:
        return make_layer_norm(static_cast<generated::NativeLayerNormBackward0&>(node));
      case Kind::batch_norm:
        return make_batch_norm(static_cast<generated::NativeBatchNormBackward0&>(node));
      case Kind::group_norm:
        return make_group_norm(static_cast<generated::NativeGroupNormBackward0&>(node));
      default:
        return false;
    }
  }

  // fma((x - mean) * rstd, weight, bias), as aten/src/ATen/native/cpu/layer_norm_kernel.cpp has it.
  bool make_layer_norm(generated::NativeLayerNormBackward0& node) {
    std::int64_t row = 1;
    for (const c10::SymInt& size : node.normalized_shape) {
      const auto known = size.maybe_as_int();
      if (!known) return false;
      row *= *known;
    }
    if (row <= 0 || row > most_factors || !is_contiguous(memory_)) return false;
    if (!hold_alike(node.input_)) return false;
    Step made;
    made.op = Operator::row_norm;
    made.row = row;
    made.rows = memory_.elements / row;
    if (!copy_factors(node.weight_, row, 1, made.scale)) return false;
    if (!copy_factors(node.bias_, row, 0, made.shift)) return false;
    if (!hold_statistic(node.result1_, made.rows, made.mean)) return false;
    if (!hold_statistic(node.result2_, made.rows, made.rstd)) return false;
    recipe_->steps.push_back(std::move(made));
    return true;
  }

  // fma(x, scale, fma(-mean, scale, bias)) with scale = rstd * weight, as
  // aten/src/ATen/native/cpu/batch_norm_kernel.cpp has it.
  bool make_batch_norm(generated::NativeBatchNormBackward0& node) {
    if (!node.training) return false;
    const auto order = channel_order(memory_, 1);
    if (!order || order->channels > most_factors) return false;
    return make_channel_norm(node, node.input_, node.weight_, node.result1_, node.result2_, *order,
                             order->channels);
  }

  // The same with a mean and a deviation for each sample's group of channels
  // (aten/src/ATen/native/cpu/group_norm_kernel.cpp).
  bool make_group_norm(generated::NativeGroupNormBackward0& node) {
    if (memory_.sizes.empty()) return false;
    const std::int64_t samples = memory_.sizes[0];
    const auto order = channel_order(memory_, samples);
    if (!order || node.group <= 0) return false;
    // The factors are one pair for each sample and channel.
    constexpr std::int64_t least_elements_a_factor = 64;
    if (memory_.elements < least_elements_a_factor * samples * order->channels) return false;
    return make_channel_norm(node, node.input_, node.weight_, node.result1_, node.result2_, *order,
                             node.group * samples);
  }

  bool make_channel_norm(Node& node, SavedVariable& input, SavedVariable& weight,
                         SavedVariable& mean, SavedVariable& rstd,
                         const codecs::ChannelOrder& order, std::int64_t statistics) {
    Step made;
    made.op = Operator::channel_norm;
    made.order = order;
    std::vector<float> weights;
    std::vector<float> biases;
    std::vector<float> means;
    std::vector<float> rstds;
    if (!copy_factors(weight, order.channels, 1, weights)) return false;
    if (!copy_bias(node.next_edge(2), has_data(weight), order.channels, biases)) return false;
    if (!copy_statistic(mean, statistics, means) || !copy_statistic(rstd, statistics, rstds)) {
      return false;
    }
    const std::int64_t all = order.channels * order.tables;
    made.scale.resize(static_cast<std::size_t>(all));
    made.shift.resize(static_cast<std::size_t>(all));
    for (std::int64_t k = 0; k < all; ++k) {
      const auto i = static_cast<std::size_t>(k);
      const auto c = static_cast<std::size_t>(k % order.channels);
      const auto s = static_cast<std::size_t>(k * statistics / all);
      made.scale[i] = rstds[s] * weights[c];
      made.shift[i] = std::fma(-means[s], made.scale[i], biases[c]);
    }
    if (!hold_alike(input)) return false;
    recipe_->steps.push_back(std::move(made));
    return true;
  }

  /// Whoever computes with the node or lets go of its tensors is not waited for: it may wait for
  /// the interpreter, whose lock we may hold.
  class Lock {
   public:
    explicit Lock(Node& node) : lock_(members::mutex_of(node), std::try_to_lock) {}
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    std::unique_lock<std::mutex> lock_;
  };

  Step& step(Operator op) {
    Step& made = recipe_->steps.emplace_back();
    made.op = op;
    return made;
  }

  /// Holds what was saved as a source; its values lie in memory as the result's do.
  std::optional<int> hold_alike(SavedVariable& saved) {
    const HeldTensor* held = held_by_stash(saved);
    if (held == nullptr) return std::nullopt;
    const Geometry& geometry = held->use().geometry;
    const bool alike = geometry.offset() == 0 && geometry.sizes() == memory_.sizes &&
                       c10::IntArrayRef(geometry.strides()) == c10::IntArrayRef(memory_.strides);
    return alike ? hold(*held) : std::nullopt;
  }

  std::optional<int> hold(const HeldTensor& held) {
    const bool serves = held.use().type == at::kFloat && held.is_as_saved() &&
                        recipe_->source_count < Recipe::most_sources;
    if (!serves) return std::nullopt;
    Recipe::Source& source = recipe_->all_sources[recipe_->source_count];
    source.version = held.version();
    source.saved_version = held.saved_version();
    const std::uint8_t depth = stash().derivation().hold_source(source, *held.entry(), held.use());
    recipe_->depth = std::max<std::uint8_t>(recipe_->depth, depth + 1);
    return static_cast<int>(recipe_->source_count++);
  }

  static bool has_data(SavedVariable& saved) {
    return saved.has_hooks() || members::data_of(saved).defined();
  }

  /// What PyTorch keeps itself of a small tensor.
  static bool is_plain(const at::Tensor& tensor, std::int64_t n) {
    return tensor.scalar_type() == at::kFloat && tensor.is_cpu() && tensor.numel() == n &&
           tensor.is_contiguous();
  }

  static bool copy(const at::Tensor& tensor, std::int64_t n, std::vector<float>& to) {
    if (!is_plain(tensor, n)) return false;
    const float* const values = tensor.const_data_ptr<float>();
    to.assign(values, values + n);
    return true;
  }

  /// A weight or bias, which the program may change before backward; `instead` where there is none.
  static bool copy_factors(SavedVariable& saved, std::int64_t n, float instead,
                           std::vector<float>& to) {
    if (!has_data(saved)) {
      to.assign(static_cast<std::size_t>(n), instead);
      return true;
    }
    return !saved.has_hooks() && copy(members::data_of(saved), n, to);
  }

  /// The bias that an edge leads to; a norm has none where it has no weight.
  static bool copy_bias(const Edge& edge, bool has_weight, std::int64_t n, std::vector<float>& to) {
    if (!edge.is_valid()) {
      to.assign(static_cast<std::size_t>(n), 0);
      return !has_weight;
    }
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get());
    return leaf != nullptr && leaf->variable.defined() && copy(leaf->variable, n, to);
  }

  /// A statistic as it is now, wherever it is held.
  static bool copy_statistic(SavedVariable& saved, std::int64_t n, std::vector<float>& to) {
    if (!saved.has_hooks()) {
      return members::data_of(saved).defined() && copy(members::data_of(saved), n, to);
    }
    const HeldTensor* held = held_by_stash(saved);
    if (held == nullptr || !held->is_as_saved()) return false;
    const c10::Storage raw = Derivation::raw_of(*held->entry());
    if (!raw || raw.nbytes() != static_cast<std::size_t>(n) * sizeof(float)) return false;
    const auto* const values = static_cast<const float*>(raw.data());
    to.assign(values, values + n);
    return true;
  }

  bool hold_statistic(SavedVariable& saved, std::int64_t n, Recipe::Statistic& to) {
    if (!saved.has_hooks()) {
      const at::Tensor& data = members::data_of(saved);
      if (!data.defined() || !is_plain(data, n)) return false;
      to.held = data.tensor_data();
      return true;
    }
    const HeldTensor* held = held_by_stash(saved);
    if (held == nullptr || held->use().geometry.offset() != 0) return false;
    if (held->entry()->raw_bytes != static_cast<std::size_t>(n) * sizeof(float)) return false;
    const auto source = hold(*held);
    if (source) to.source = *source;
    return source.has_value();
  }

  const Memory& memory_;
  std::unique_ptr<Recipe> recipe_;
};

}  // namespace

std::unique_ptr<Recipe> recognise(const at::Tensor& tensor, const Site& site) noexcept try {
  const at::Tensor base = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  const auto& grad_fn = base.grad_fn();
  if (grad_fn == nullptr || kind_of(*grad_fn) == Kind::other) return nullptr;
  const auto memory = memory_of(base);
  if (!memory || stash().lists().is_waiting(base.storage())) return nullptr;
  Maker maker(*memory);
  if (!maker.make(*grad_fn, static_cast<std::uint32_t>(base.output_nr()))) return nullptr;
  const std::uint32_t version = torch::autograd::impl::version_counter(base).current_version();
  return maker.take(version, site, base);
} catch (const std::exception&) {
  return nullptr;
}

}  // namespace cinch::hooks
