// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/autograd/held_tensor.h"
#include "hooks/torch/autograd/members.h"
#include "hooks/torch/autograd/saved_inputs.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

// Most factors that a recipe copies; more would not be small beside the tensor.
constexpr std::int64_t most_factors = 65536;

// Most recipes between a derived value and stored ones.
constexpr std::uint8_t most_depth = 2;

// Most operators of one recipe.
constexpr int most_steps = 8;

/// Nodes whose result can be computed again, or can be found among what they saved.
enum class Kind : std::uint8_t {
  other,
  layer_norm,
  batch_norm,
  group_norm,
  relu,
  gelu,
  silu,
  leaky_relu,
  leaky_relu_in_place,
  elu,
  elu_in_place,
  hardswish,
  hardtanh,
  hardsigmoid,
  mish,
  softplus,
  add,
  sub,
  mul,
  div,
  max_pool,
  cast,
  sigmoid,  ///< like those below not computed, only found: it saved its own result
  tanh,
  softmax,
};

Kind kind_of(const Node& node) {
  static const std::unordered_map<std::type_index, Kind> kinds = {
      {typeid(generated::NativeLayerNormBackward0), Kind::layer_norm},
      {typeid(generated::NativeBatchNormBackward0), Kind::batch_norm},
      {typeid(generated::NativeGroupNormBackward0), Kind::group_norm},
      {typeid(generated::ReluBackward0), Kind::relu},
      {typeid(generated::GeluBackward0), Kind::gelu},
      {typeid(generated::SiluBackward0), Kind::silu},
      {typeid(generated::LeakyReluBackward0), Kind::leaky_relu},
      {typeid(generated::LeakyReluBackward1), Kind::leaky_relu_in_place},
      {typeid(generated::EluBackward0), Kind::elu},
      {typeid(generated::EluBackward1), Kind::elu_in_place},
      {typeid(generated::HardswishBackward0), Kind::hardswish},
      {typeid(generated::HardtanhBackward0), Kind::hardtanh},
      {typeid(generated::HardsigmoidBackward0), Kind::hardsigmoid},
      {typeid(generated::MishBackward0), Kind::mish},
      {typeid(generated::SoftplusBackward0), Kind::softplus},
      {typeid(generated::AddBackward0), Kind::add},
      {typeid(generated::SubBackward0), Kind::sub},
      {typeid(generated::MulBackward0), Kind::mul},
      {typeid(generated::DivBackward0), Kind::div},
      {typeid(generated::MaxPool2DWithIndicesBackward0), Kind::max_pool},
      {typeid(generated::ToCopyBackward0), Kind::cast},
      {typeid(generated::SigmoidBackward0), Kind::sigmoid},
      {typeid(generated::TanhBackward0), Kind::tanh},
      {typeid(generated::SoftmaxBackward0), Kind::softmax},
  };
  thread_local std::unordered_map<const std::type_info*, Kind> known;  // by address, not by name
  const std::type_info& type = typeid(node);
  const auto [it, is_new] = known.try_emplace(&type, Kind::other);
  if (is_new) {
    const auto found = kinds.find(type);
    if (found != kinds.end()) it->second = found->second;
  }
  return it->second;
}

/// The saved variable of the node's own result; null if the node does not save its result.
SavedVariable* result_of(Node& node) {
  switch (kind_of(node)) {
    case Kind::relu:
      return &static_cast<generated::ReluBackward0&>(node).result_;
    case Kind::sigmoid:
      return &static_cast<generated::SigmoidBackward0&>(node).result_;
    case Kind::tanh:
      return &static_cast<generated::TanhBackward0&>(node).result_;
    case Kind::softmax:
      return &static_cast<generated::SoftmaxBackward0&>(node).result_;
    default:
      return nullptr;
  }
}

bool has_recipes(c10::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

/// The element type of the node's first output, in the forward.
c10::ScalarType type_of(const Node& node) {
  if (node.num_inputs() == 0) return c10::ScalarType::Undefined;
  return c10::typeMetaToScalarType(node.input_metadata(0).dtype());
}

/// A dense tensor that fills its storage, from the first byte.
struct Memory {
  c10::IntArrayRef sizes;
  c10::DimVector strides;
  std::int64_t elements = 0;
  c10::ScalarType type = c10::ScalarType::Undefined;
};

std::optional<Memory> memory_of(const at::Tensor& tensor) {
  const bool fits = has_recipes(tensor.scalar_type()) && tensor.is_cpu() &&
                    tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
                    tensor.storage().nbytes() == tensor.nbytes();
  if (!fits) return std::nullopt;
  return Memory{tensor.sizes(), c10::DimVector(tensor.strides()), tensor.numel(),
                tensor.scalar_type()};
}

bool is_contiguous(const Memory& memory) {
  std::int64_t expected = 1;
  for (std::size_t i = memory.sizes.size(); i-- > 0;) {
    if (memory.sizes[i] != 1 && memory.strides[i] != expected) return false;
    expected *= memory.sizes[i];
  }
  return true;
}

/// How dimension 1 lies in the memory; nullopt if that is neither contiguous nor channels last.
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

/// Builds a recipe. Releases the sources that the recipe holds, unless take() hands it out.
class Maker {
 public:
  explicit Maker(const Memory& memory) : memory_(memory), recipe_(std::make_unique<Recipe>()) {
    recipe_->elements = memory.elements;
    recipe_->type = memory.type;
    recipe_->sizes = memory.sizes;
    recipe_->strides = memory.strides;
    recipe_->threads = at::get_num_threads();
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  ~Maker() {
    if (recipe_ != nullptr) stash().derivation().release_sources(*recipe_);
  }

  /// Builds the recipe of the output `output` of `node`. @return whether it could
  bool make(Node& node, std::uint32_t output) {
    return output == 0 && compute(node, recipe_->value) && recipe_->source_count != 0 &&
           recipe_->value.type() == memory_.type;
  }

  /// Hands out the recipe if it is proved to give `actual`'s bits; else returns null.
  std::unique_ptr<Recipe> take(std::uint32_t version, const Site& site, const at::Tensor& actual) {
    recipe_->version = version;
    const bool serves =
        recipe_->depth <= most_depth && stash().derivation().proves(*recipe_, site, actual);
    return serves ? std::move(recipe_) : nullptr;
  }

 private:
  using Step = Recipe::Step;
  using Operator = Recipe::Operator;
  using Value = Recipe::Value;

  // The functions that build a value into `to` return whether they could. If not, the sources that
  // they have held by then stay held until the destructor releases them.

  /// Builds the first output of `node` from what `node`, and the nodes before it, saved.
  bool compute(Node& node, Value& to) {
    if (++steps_ > most_steps || !has_recipes(type_of(node))) return false;
    const Kind kind = kind_of(node);
    switch (kind) {
      case Kind::relu:
        if (!find(node.next_edge(0), to) || !is_alike(to)) return false;
        step(to, Operator::relu, node);
        return true;
      case Kind::cast:
        if (!find(node.next_edge(0), to) || !is_alike(to)) return false;
        step(to, Operator::cast, node);
        return true;
      case Kind::add:
        return static_cast<generated::AddBackward0&>(node).alpha.equal(1) &&
               make_pair(node, Operator::add, nullptr, nullptr, to);
      case Kind::sub:
        return static_cast<generated::SubBackward0&>(node).alpha.equal(1) &&
               make_pair(node, Operator::sub, nullptr, nullptr, to);
      case Kind::mul: {
        auto& mul = static_cast<generated::MulBackward0&>(node);
        return make_pair(node, Operator::mul, &mul.self_, &mul.other_, to);
      }
      case Kind::div: {
        auto& div = static_cast<generated::DivBackward0&>(node);
        return make_pair(node, Operator::div, &div.self_, &div.other_, to);
      }
      case Kind::max_pool:
        return make_max_pool(static_cast<generated::MaxPool2DWithIndicesBackward0&>(node), to);
      case Kind::layer_norm:
      case Kind::batch_norm:
      case Kind::group_norm:
        return make_norm(node, kind, to);
      default:
        return make_activation(node, kind, to);
    }
  }

  /// Builds the value that `edge` leads to: a source if some node saved the value, else computed.
  bool find(const Edge& edge, Value& to) {
    if (!edge.is_valid()) return false;
    Node& node = *edge.function;
    if (edge.input_nr == 0) {
      if (SavedVariable* result = result_of(node)) {
        const Lock lock(node);
        if (lock && hold_value(*result, to)) return true;
      }
    }
    bool is_held = false;
    // A tensor that was changed before it was saved may have had other values when used here.
    saved_inputs::find(node, edge.input_nr, [&](const HeldTensor& held) {
      is_held = held.saved_version() == 0 && hold_value(held, to);
    });
    return is_held || (edge.input_nr == 0 && compute(node, to));
  }

  /// Builds an activation function of the value that the node saved as its input, or else of the
  /// one that the node's edge leads to.
  bool make_activation(Node& node, Kind kind, Value& to) {
    Step made;
    made.type = type_of(node);
    bool is_held = false;
    {
      const Lock lock(node);
      SavedVariable* input = nullptr;
      if (!lock || !describe(node, kind, made, input)) return false;
      is_held = input != nullptr && hold_alike(*input, to);
    }
    if (!is_held && !(find(node.next_edge(0), to) && is_alike(to))) return false;
    if (to.type() != made.type) return false;
    to.steps.push_back(std::move(made));
    return true;
  }

  /// Sets the operator of an activation's node and its parameters, and what it saved as its input.
  /// @return whether it is an activation @pre the node is locked
  static bool describe(Node& node, Kind kind, Step& to, SavedVariable*& input) {
    const auto set = [&](Operator op, SavedVariable* saved, std::array<double, 3> scalars = {}) {
      to.op = op;
      to.scalars = scalars;
      input = saved;
      return true;
    };
    const auto number = [](const at::Scalar& scalar) { return scalar.toDouble(); };
    switch (kind) {
      case Kind::gelu: {
        auto& gelu = static_cast<generated::GeluBackward0&>(node);
        to.tanh = gelu.approximate == "tanh";
        return set(Operator::gelu, &gelu.self_);
      }
      case Kind::silu:
        return set(Operator::silu, &static_cast<generated::SiluBackward0&>(node).self_);
      case Kind::leaky_relu: {
        auto& leaky = static_cast<generated::LeakyReluBackward0&>(node);
        return set(Operator::leaky_relu, &leaky.self_, {number(leaky.negative_slope)});
      }
      case Kind::leaky_relu_in_place: {
        auto& leaky = static_cast<generated::LeakyReluBackward1&>(node);
        return set(Operator::leaky_relu, nullptr, {number(leaky.negative_slope)});
      }
      case Kind::elu: {
        auto& elu = static_cast<generated::EluBackward0&>(node);
        return set(Operator::elu, &elu.self_,
                   {number(elu.alpha), number(elu.scale), number(elu.input_scale)});
      }
      case Kind::elu_in_place: {
        auto& elu = static_cast<generated::EluBackward1&>(node);
        return set(Operator::elu, nullptr,
                   {number(elu.alpha), number(elu.scale), number(elu.input_scale)});
      }
      case Kind::hardswish:
        return set(Operator::hardswish, &static_cast<generated::HardswishBackward0&>(node).self_);
      case Kind::hardtanh: {
        auto& hardtanh = static_cast<generated::HardtanhBackward0&>(node);
        return set(Operator::hardtanh, &hardtanh.self_,
                   {number(hardtanh.min_val), number(hardtanh.max_val)});
      }
      case Kind::hardsigmoid:
        return set(Operator::hardsigmoid,
                   &static_cast<generated::HardsigmoidBackward0&>(node).self_);
      case Kind::mish:
        return set(Operator::mish, &static_cast<generated::MishBackward0&>(node).self_);
      case Kind::softplus: {
        auto& softplus = static_cast<generated::SoftplusBackward0&>(node);
        return set(Operator::softplus, &softplus.self_,
                   {number(softplus.beta), number(softplus.threshold)});
      }
      default:
        return false;
    }
  }

  // Builds an operator of two operands that broadcast. Each is what the node saved in `left` or
  // `right` (null if it saves no such operand), or else the value that the node's edge leads to.
  bool make_pair(Node& node, Operator op, SavedVariable* left, SavedVariable* right, Value& to) {
    Value first;
    auto second = std::make_unique<Value>();
    if (!make_operand(node, 0, left, first) || !make_operand(node, 1, right, *second)) return false;
    if (!broadcast_to_result(sizes_of(first), sizes_of(*second))) return false;
    const bool reversed = first.steps.empty() && !second->steps.empty();
    if (reversed) std::swap(first, *second);
    to = std::move(first);
    Step& made = step(to, op, node);
    made.other = std::move(second);
    made.reversed = reversed;
    return true;
  }

  bool make_operand(Node& node, std::uint32_t edge, SavedVariable* saved, Value& to) {
    if (saved != nullptr) {
      const Lock lock(node);
      if (!lock) return false;
      if (has_data(*saved)) return hold_value(*saved, to) || copy_constant(*saved, to);
    }
    return edge < node.num_outputs() && find(node.next_edge(edge), to);
  }

  bool make_max_pool(generated::MaxPool2DWithIndicesBackward0& node, Value& to) {
    const Lock lock(node);
    if (!lock || !hold_value(node.self_, to) || memory_.sizes.size() != 4) return false;
    const auto out = channel_order(memory_, 1);
    const Memory pooled = {to.sizes, to.strides, c10::multiply_integers(to.sizes), to.type()};
    const auto in = to.sizes.size() == 4 ? channel_order(pooled, 1) : std::nullopt;
    if (!in || !out) return false;
    const bool last = !is_contiguous(memory_);
    if (last == is_contiguous(pooled)) return false;
    const HeldTensor* indices = held_by_stash(node.result1_);
    const bool fit = indices != nullptr && indices->use().type == at::kLong && lies_alike(*indices);
    if (!fit) return false;
    const auto held = hold(*indices);
    if (!held) return false;
    Step& made = step(to, Operator::max_pool, node);
    made.indices = *held;
    const std::int64_t planes = memory_.sizes[0] * (last ? 1 : memory_.sizes[1]);
    made.pool = {planes, last ? memory_.sizes[1] : 1, to.sizes[2] * to.sizes[3],
                 memory_.sizes[2] * memory_.sizes[3]};
    return true;
  }

  bool make_norm(Node& node, Kind kind, Value& to) {
    const Lock lock(node);
    if (!lock) return false;
    switch (kind) {
      case Kind::layer_norm:
        return make_layer_norm(static_cast<generated::NativeLayerNormBackward0&>(node), to);
      case Kind::batch_norm:
        return make_batch_norm(static_cast<generated::NativeBatchNormBackward0&>(node), to);
      case Kind::group_norm:
        return make_group_norm(static_cast<generated::NativeGroupNormBackward0&>(node), to);
      default:
        return false;
    }
  }

  // fma((x - mean) * rstd, weight, bias), as aten/src/ATen/native/cpu/layer_norm_kernel.cpp has it.
  bool make_layer_norm(generated::NativeLayerNormBackward0& node, Value& to) {
    std::int64_t row = 1;
    for (const c10::SymInt& size : node.normalized_shape) {
      const auto known = size.maybe_as_int();
      if (!known) return false;
      row *= *known;
    }
    if (row <= 0 || row > most_factors || !is_contiguous(memory_)) return false;
    // The operator makes its input contiguous first.
    if (!hold_value(node.input_, to) || c10::IntArrayRef(to.sizes) != memory_.sizes) return false;
    Step made;
    made.op = Operator::row_norm;
    made.type = type_of(node);
    made.row = row;
    made.rows = memory_.elements / row;
    if (!copy_factors(node.weight_, row, 1, made.scale)) return false;
    if (!copy_factors(node.bias_, row, 0, made.shift)) return false;
    if (!hold_statistic(node.result1_, made.rows, made.mean)) return false;
    if (!hold_statistic(node.result2_, made.rows, made.rstd)) return false;
    to.steps.push_back(std::move(made));
    return true;
  }

  // fma(x, scale, fma(-mean, scale, bias)) with scale = rstd * weight, as
  // aten/src/ATen/native/cpu/batch_norm_kernel.cpp has it.
  bool make_batch_norm(generated::NativeBatchNormBackward0& node, Value& to) {
    if (!node.training) return false;
    const auto order = channel_order(memory_, 1);
    if (!order || order->channels > most_factors) return false;
    return make_channel_norm(node, node.input_, node.weight_, node.result1_, node.result2_, *order,
                             order->channels, to);
  }

  // The same with a mean and a deviation for each sample's group of channels
  // (aten/src/ATen/native/cpu/group_norm_kernel.cpp).
  bool make_group_norm(generated::NativeGroupNormBackward0& node, Value& to) {
    if (memory_.sizes.empty()) return false;
    const std::int64_t samples = memory_.sizes[0];
    const auto order = channel_order(memory_, samples);
    if (!order || node.group <= 0) return false;
    // There is one pair of factors for each sample and channel.
    constexpr std::int64_t least_elements_a_factor = 64;
    if (memory_.elements < least_elements_a_factor * samples * order->channels) return false;
    return make_channel_norm(node, node.input_, node.weight_, node.result1_, node.result2_, *order,
                             node.group * samples, to);
  }

  bool make_channel_norm(Node& node, SavedVariable& input, SavedVariable& weight,
                         SavedVariable& mean, SavedVariable& rstd,
                         const codecs::ChannelOrder& order, std::int64_t statistics, Value& to) {
    Step made;
    made.op = Operator::channel_norm;
    made.type = type_of(node);
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
    if (!hold_alike(input, to)) return false;
    to.steps.push_back(std::move(made));
    return true;
  }

  /// Tries to lock the node. Never waits: a thread that runs the node or releases its saved
  /// variables may wait for the interpreter, whose lock this thread may hold.
  class Lock {
   public:
    explicit Lock(Node& node) : lock_(members::mutex_of(node), std::try_to_lock) {}
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    std::unique_lock<std::mutex> lock_;
  };

  static Step& step(Value& to, Operator op, const Node& node) {
    Step& made = to.steps.emplace_back();
    made.op = op;
    made.type = type_of(node);
    return made;
  }

  bool lies_alike(c10::IntArrayRef sizes, c10::IntArrayRef strides) const {
    return sizes == memory_.sizes && strides == c10::IntArrayRef(memory_.strides);
  }
  bool lies_alike(const HeldTensor& held) const {
    return lies_alike(held.use().geometry.sizes(), held.use().geometry.strides());
  }

  /// Whether the value has the result's sizes and strides.
  bool is_alike(const Value& value) const {
    if (!value.steps.empty()) return true;
    return value.source >= 0 && lies_alike(value.sizes, value.strides);
  }

  /// The value's sizes; a computed value has the result's.
  c10::IntArrayRef sizes_of(const Value& value) const {
    return value.steps.empty() ? c10::IntArrayRef(value.sizes) : memory_.sizes;
  }

  bool broadcast_to_result(c10::IntArrayRef a, c10::IntArrayRef b) const {
    const std::size_t rank = memory_.sizes.size();
    if (std::max(a.size(), b.size()) != rank) return false;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t size = memory_.sizes[rank - 1 - i];
      const std::int64_t of_a = i < a.size() ? a[a.size() - 1 - i] : 1;
      const std::int64_t of_b = i < b.size() ? b[b.size() - 1 - i] : 1;
      const bool fits = (of_a == size || of_a == 1) && (of_b == size || of_b == 1);
      if (!fits || std::max(of_a, of_b) != size) return false;
    }
    return true;
  }

  /// Makes the saved value a source. @return whether it could: the stash must hold it, on the host
  bool hold_value(SavedVariable& saved, Value& to) {
    const HeldTensor* held = held_by_stash(saved);
    return held != nullptr && hold_value(*held, to);
  }

  bool hold_value(const HeldTensor& held, Value& to) {
    if (!has_recipes(held.use().type) || held.entry()->device != nullptr) return false;
    const auto source = hold(held);
    if (!source) return false;
    to.source = *source;
    to.source_type = held.use().type;
    to.sizes = held.use().geometry.sizes();
    to.strides = held.use().geometry.strides();
    return true;
  }

  /// The same, but only for a tensor with the result's sizes and strides.
  bool hold_alike(SavedVariable& saved, Value& to) {
    const HeldTensor* held = held_by_stash(saved);
    return held != nullptr && lies_alike(*held) && hold_value(*held, to);
  }

  /// Copies a small tensor that PyTorch keeps itself: a parameter, a factor.
  static bool copy_constant(SavedVariable& saved, Value& to) {
    if (saved.has_hooks() || !members::is_as_saved(saved)) return false;
    const at::Tensor& data = members::data_of(saved);
    if (data.numel() > most_factors || !data.is_cpu()) return false;
    if (data.dim() == 0 && data.scalar_type() == at::kDouble) {
      to.constant = {static_cast<float>(*data.const_data_ptr<double>())};  // of a Python number
    } else if (!copy(data, data.numel(), to.constant)) {
      return false;
    }
    to.sizes = data.sizes();
    return true;
  }

  std::optional<int> hold(const HeldTensor& held) {
    if (!held.is_as_saved() || recipe_->source_count == Recipe::most_sources) return std::nullopt;
    Recipe::Source& source = recipe_->all_sources[recipe_->source_count];
    source.version = held.version();
    source.saved_version = held.saved_version();
    const auto depth = stash().derivation().hold_source(source, *held.entry(), held.use());
    if (!depth) return std::nullopt;
    recipe_->depth = std::max<std::uint8_t>(recipe_->depth, *depth + 1);
    return static_cast<int>(recipe_->source_count++);
  }

  static bool has_data(SavedVariable& saved) {
    return saved.has_hooks() || members::data_of(saved).defined();
  }

  /// Whether the tensor is `n` contiguous elements on the CPU.
  static bool is_plain(const at::Tensor& tensor, std::int64_t n) {
    return tensor.is_cpu() && tensor.numel() == n && tensor.is_contiguous();
  }

  template <typename T>
  static bool assign(const at::Tensor& tensor, std::vector<float>& to) {
    const T* const values = tensor.const_data_ptr<T>();
    to.assign(values, values + tensor.numel());
    return true;
  }

  static bool copy(const at::Tensor& tensor, std::int64_t n, std::vector<float>& to) {
    if (!is_plain(tensor, n)) return false;
    switch (tensor.scalar_type()) {
      case at::kFloat:
        return assign<float>(tensor, to);
      case at::kBFloat16:
        return assign<at::BFloat16>(tensor, to);
      case at::kHalf:
        return assign<at::Half>(tensor, to);
      default:
        return false;
    }
  }

  /// Copies a weight or bias, which the program may change before backward; `instead` for none.
  static bool copy_factors(SavedVariable& saved, std::int64_t n, float instead,
                           std::vector<float>& to) {
    if (!has_data(saved)) {
      to.assign(static_cast<std::size_t>(n), instead);
      return true;
    }
    return !saved.has_hooks() && members::is_as_saved(saved) &&
           copy(members::data_of(saved), n, to);
  }

  /// Copies the bias that `edge` leads to. No edge: zeros, if the norm has no weight either.
  static bool copy_bias(const Edge& edge, bool has_weight, std::int64_t n, std::vector<float>& to) {
    if (!edge.is_valid()) {
      to.assign(static_cast<std::size_t>(n), 0);
      return !has_weight;
    }
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get());
    return leaf != nullptr && leaf->variable.defined() && copy(leaf->variable, n, to);
  }

  /// Copies a statistic as it is now, whether PyTorch or the stash holds it.
  static bool copy_statistic(SavedVariable& saved, std::int64_t n, std::vector<float>& to) {
    if (!saved.has_hooks()) {
      return members::data_of(saved).defined() && copy(members::data_of(saved), n, to);
    }
    const HeldTensor* held = held_by_stash(saved);
    if (held == nullptr || !held->is_as_saved()) return false;
    const c10::Storage exact = stash().exact().of(*held->entry());
    if (!exact || exact.nbytes() != static_cast<std::size_t>(n) * sizeof(float)) return false;
    const auto* const values = static_cast<const float*>(exact.data());
    to.assign(values, values + n);
    return true;
  }

  bool hold_statistic(SavedVariable& saved, std::int64_t n, Recipe::Statistic& to) {
    if (!saved.has_hooks()) {
      const at::Tensor& data = members::data_of(saved);
      if (!data.defined() || data.scalar_type() != at::kFloat || !is_plain(data, n)) return false;
      to.held = data.tensor_data();
      return true;
    }
    const HeldTensor* held = held_by_stash(saved);
    if (held == nullptr || held->use().geometry.offset() != 0) return false;
    if (held->use().type != at::kFloat) return false;
    if (held->entry()->raw_bytes != static_cast<std::size_t>(n) * sizeof(float)) return false;
    const auto source = hold(*held);
    if (source) to.source = *source;
    return source.has_value();
  }

  const Memory& memory_;
  std::unique_ptr<Recipe> recipe_;
  int steps_ = 0;
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
