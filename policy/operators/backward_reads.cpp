// SPDX-License-Identifier: Apache-2.0
// Follows each saved tensor through the operators of backward to where it meets a gradient.
// Backward is linear in gradients, so nothing has to be followed further. Most tensors meet a
// gradient as they were saved, in the backward of an operator that operand.cpp knows. From others
// backward first computes something, such as a norm's result: then they are factors, if all
// operators on the way are smooth. tests/policy/operators/operand_coverage.py checks the names in
// the tables against torch.
#include "policy/operators/backward_reads.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "policy/operators/backward_graph.h"
#include "policy/operators/operand.h"

namespace cinch::policy {
namespace {

/// An operator of backward that reads an operand of an operator of forward.
struct Contact {
  std::string_view op;
  std::string_view argument;  ///< "*" stands for all that no earlier row of the op names
  std::string_view of_op;
  std::string_view operand;  ///< "*": of the argument's name
};

// Sorted by op. Where forward's formulas name operands otherwise than backward's operator does,
// operand.cpp's names are used.
constexpr Contact contacts[] = {
    {"aten::_adaptive_avg_pool2d_backward", "self", "aten::_adaptive_avg_pool2d", "self"},
    {"aten::_adaptive_avg_pool3d_backward", "self", "aten::_adaptive_avg_pool3d", "self"},
    {"aten::_cdist_backward", "*", "aten::_cdist_forward", "*"},
    {"aten::_cudnn_attention_backward", "out", "aten::_cudnn_attention_forward", "output"},
    {"aten::_cudnn_attention_backward", "*", "aten::_cudnn_attention_forward", "*"},
    {"aten::_efficient_attention_backward", "out", "aten::_efficient_attention_forward", "output"},
    {"aten::_efficient_attention_backward", "*", "aten::_efficient_attention_forward", "*"},
    {"aten::_flash_attention_backward", "out", "aten::_flash_attention_forward", "output"},
    {"aten::_flash_attention_backward", "*", "aten::_flash_attention_forward", "*"},
    {"aten::_fused_rms_norm_backward", "*", "aten::_fused_rms_norm", "*"},
    {"aten::_grouped_mm", "self", "aten::_grouped_mm", "self"},
    {"aten::_grouped_mm", "mat2", "aten::_grouped_mm", "mat2"},
    {"aten::_log_softmax_backward_data", "output", "aten::_log_softmax", "result"},
    {"aten::_prelu_kernel_backward", "*", "aten::_prelu_kernel", "*"},
    {"aten::_scaled_dot_product_cudnn_attention_backward", "out",
     "aten::_scaled_dot_product_cudnn_attention", "output"},
    {"aten::_scaled_dot_product_cudnn_attention_backward", "*",
     "aten::_scaled_dot_product_cudnn_attention", "*"},
    {"aten::_scaled_dot_product_efficient_attention_backward", "out",
     "aten::_scaled_dot_product_efficient_attention", "output"},
    {"aten::_scaled_dot_product_efficient_attention_backward", "*",
     "aten::_scaled_dot_product_efficient_attention", "*"},
    {"aten::_scaled_dot_product_flash_attention_backward", "out",
     "aten::_scaled_dot_product_flash_attention", "output"},
    {"aten::_scaled_dot_product_flash_attention_backward", "*",
     "aten::_scaled_dot_product_flash_attention", "*"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", "out",
     "aten::_scaled_dot_product_flash_attention_for_cpu", "output"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", "*",
     "aten::_scaled_dot_product_flash_attention_for_cpu", "*"},
    {"aten::_softmax_backward_data", "output", "aten::_softmax", "result"},
    {"aten::_weight_norm_interface_backward", "*", "aten::_weight_norm_interface", "*"},
    {"aten::addmm", "mat1", "aten::addmm", "mat1"},
    {"aten::addmm", "mat2", "aten::addmm", "mat2"},
    {"aten::avg_pool2d_backward", "self", "aten::avg_pool2d", "self"},
    {"aten::avg_pool3d_backward", "self", "aten::avg_pool3d", "self"},
    {"aten::baddbmm", "batch1", "aten::baddbmm", "batch1"},
    {"aten::baddbmm", "batch2", "aten::baddbmm", "batch2"},
    {"aten::batch_norm_backward", "*", "aten::_batch_norm_with_update", "*"},
    {"aten::bmm", "self", "aten::bmm", "self"},
    {"aten::bmm", "mat2", "aten::bmm", "mat2"},
    {"aten::convolution_backward", "input", "aten::convolution", "input"},
    {"aten::convolution_backward", "weight", "aten::convolution", "weight"},
    {"aten::cudnn_batch_norm_backward", "*", "aten::cudnn_batch_norm", "*"},
    {"aten::elu_backward", "self_or_result", "aten::elu", "result"},
    {"aten::gelu_backward", "self", "aten::gelu", "self"},
    {"aten::glu_backward", "self", "aten::glu", "self"},
    {"aten::grid_sampler_2d_backward", "*", "aten::grid_sampler_2d", "*"},
    {"aten::grid_sampler_3d_backward", "*", "aten::grid_sampler_3d", "*"},
    {"aten::hardshrink_backward", "self", "aten::hardshrink", "self"},
    {"aten::hardswish_backward", "self", "aten::hardswish", "self"},
    {"aten::huber_loss_backward", "self", "aten::huber_loss", "self"},
    {"aten::huber_loss_backward", "target", "aten::huber_loss", "target"},
    {"aten::leaky_relu_backward", "self", "aten::leaky_relu", "self"},
    {"aten::log_sigmoid_backward", "*", "aten::log_sigmoid_forward", "*"},
    {"aten::logit_backward", "self", "aten::logit", "self"},
    {"aten::max_pool2d_with_indices_backward", "self", "aten::max_pool2d_with_indices", "self"},
    {"aten::max_pool3d_with_indices_backward", "self", "aten::max_pool3d_with_indices", "self"},
    {"aten::mish_backward", "self", "aten::mish", "self"},
    {"aten::mm", "self", "aten::mm", "self"},
    {"aten::mm", "mat2", "aten::mm", "mat2"},
    {"aten::mse_loss_backward", "self", "aten::mse_loss", "self"},
    {"aten::mse_loss_backward", "target", "aten::mse_loss", "target"},
    {"aten::multi_margin_loss_backward", "self", "aten::multi_margin_loss", "self"},
    {"aten::native_batch_norm_backward", "*", "aten::native_batch_norm", "*"},
    {"aten::native_group_norm_backward", "*", "aten::native_group_norm", "*"},
    {"aten::native_layer_norm_backward", "*", "aten::native_layer_norm", "*"},
    {"aten::nll_loss2d_backward", "*", "aten::nll_loss2d_forward", "*"},
    {"aten::nll_loss_backward", "*", "aten::nll_loss_forward", "*"},
    {"aten::reflection_pad1d_backward", "self", "aten::reflection_pad1d", "self"},
    {"aten::reflection_pad2d_backward", "self", "aten::reflection_pad2d", "self"},
    {"aten::reflection_pad3d_backward", "self", "aten::reflection_pad3d", "self"},
    {"aten::replication_pad1d_backward", "self", "aten::replication_pad1d", "self"},
    {"aten::replication_pad2d_backward", "self", "aten::replication_pad2d", "self"},
    {"aten::replication_pad3d_backward", "self", "aten::replication_pad3d", "self"},
    {"aten::sigmoid_backward", "output", "aten::sigmoid", "result"},
    {"aten::silu_backward", "self", "aten::silu", "self"},
    {"aten::smooth_l1_loss_backward", "self", "aten::smooth_l1_loss", "self"},
    {"aten::smooth_l1_loss_backward", "target", "aten::smooth_l1_loss", "target"},
    {"aten::soft_margin_loss_backward", "self", "aten::soft_margin_loss", "self"},
    {"aten::soft_margin_loss_backward", "target", "aten::soft_margin_loss", "target"},
    {"aten::softplus_backward", "self", "aten::softplus", "self"},
    {"aten::softshrink_backward", "self", "aten::softshrink", "self"},
    {"aten::tanh_backward", "output", "aten::tanh", "result"},
};
static_assert(std::ranges::is_sorted(contacts, {}, &Contact::op));

/// What an operator makes of a saved tensor when no gradient is near.
enum class Effect : std::uint8_t {
  amplifies,  ///< has a pole, or picks the largest: a small error may make a large one
  asks_size,  ///< reads no values
  computes,   ///< a smooth function, or one of bounded slope
  equals,     ///< compares for equality
  moves,      ///< its result has the arguments' elements, as they are
  unknown,
};

struct EffectRow {
  std::string_view op;
  Effect effect;
};

// Sorted by op. What is periodic (sin, cos), exp but for the two forms below, and all that is not
// listed is unknown.
constexpr EffectRow effects[] = {
    {"alias", Effect::moves},
    {"aten::_adaptive_avg_pool2d", Effect::computes},
    {"aten::_fused_rms_norm", Effect::computes},
    {"aten::_native_batch_norm_legit", Effect::computes},
    {"aten::_native_batch_norm_legit_functional", Effect::computes},
    {"aten::_reshape_alias", Effect::moves},
    {"aten::_to_copy", Effect::moves},
    {"aten::_unsafe_index", Effect::moves},
    {"aten::_unsafe_view", Effect::moves},
    {"aten::abs", Effect::computes},
    {"aten::add", Effect::computes},
    {"aten::addcmul", Effect::computes},
    {"aten::addmm", Effect::computes},
    {"aten::alias", Effect::moves},
    {"aten::amax", Effect::amplifies},
    {"aten::amin", Effect::amplifies},
    {"aten::argmax", Effect::amplifies},
    {"aten::argmin", Effect::amplifies},
    {"aten::as_strided", Effect::moves},
    {"aten::asinh", Effect::computes},
    {"aten::atan", Effect::computes},
    {"aten::avg_pool2d", Effect::computes},
    {"aten::avg_pool3d", Effect::computes},
    {"aten::baddbmm", Effect::computes},
    {"aten::bmm", Effect::computes},
    {"aten::cat", Effect::moves},
    {"aten::celu", Effect::computes},
    {"aten::clamp", Effect::computes},
    {"aten::clamp_max", Effect::computes},
    {"aten::clamp_min", Effect::computes},
    {"aten::clone", Effect::moves},
    {"aten::constant_pad_nd", Effect::moves},
    {"aten::convolution", Effect::computes},
    {"aten::cumsum", Effect::computes},
    {"aten::detach", Effect::moves},
    {"aten::diagonal", Effect::moves},
    {"aten::div", Effect::computes},
    {"aten::elu", Effect::computes},
    {"aten::empty_like", Effect::asks_size},
    {"aten::eq", Effect::equals},
    {"aten::erf", Effect::computes},
    {"aten::erfc", Effect::computes},
    {"aten::expand", Effect::moves},
    {"aten::flip", Effect::moves},
    {"aten::full_like", Effect::asks_size},
    {"aten::gather", Effect::moves},
    {"aten::gelu", Effect::computes},
    {"aten::glu", Effect::computes},
    {"aten::hardsigmoid", Effect::computes},
    {"aten::hardswish", Effect::computes},
    {"aten::hardtanh", Effect::computes},
    {"aten::index", Effect::moves},
    {"aten::index_select", Effect::moves},
    {"aten::leaky_relu", Effect::computes},
    {"aten::lerp", Effect::computes},
    {"aten::lift_fresh_copy", Effect::moves},
    {"aten::log", Effect::amplifies},
    {"aten::log10", Effect::amplifies},
    {"aten::log1p", Effect::amplifies},
    {"aten::log2", Effect::amplifies},
    {"aten::masked_fill", Effect::moves},
    {"aten::max", Effect::amplifies},
    {"aten::maximum", Effect::computes},
    {"aten::mean", Effect::computes},
    {"aten::min", Effect::amplifies},
    {"aten::minimum", Effect::computes},
    {"aten::mish", Effect::computes},
    {"aten::mm", Effect::computes},
    {"aten::mul", Effect::computes},
    {"aten::mv", Effect::computes},
    {"aten::native_batch_norm", Effect::computes},
    {"aten::native_group_norm", Effect::computes},
    {"aten::native_layer_norm", Effect::computes},
    {"aten::ne", Effect::equals},
    {"aten::neg", Effect::computes},
    {"aten::new_empty", Effect::asks_size},
    {"aten::new_empty_strided", Effect::asks_size},
    {"aten::new_full", Effect::asks_size},
    {"aten::new_ones", Effect::asks_size},
    {"aten::new_zeros", Effect::asks_size},
    {"aten::ones_like", Effect::asks_size},
    {"aten::permute", Effect::moves},
    {"aten::prod", Effect::amplifies},
    {"aten::reciprocal", Effect::amplifies},
    {"aten::relu", Effect::computes},
    {"aten::repeat", Effect::moves},
    {"aten::reshape", Effect::moves},
    {"aten::roll", Effect::moves},
    {"aten::rsqrt", Effect::amplifies},
    {"aten::rsub", Effect::computes},
    {"aten::select", Effect::moves},
    {"aten::select_scatter", Effect::moves},
    {"aten::sigmoid", Effect::computes},
    {"aten::silu", Effect::computes},
    {"aten::slice", Effect::moves},
    {"aten::slice_scatter", Effect::moves},
    {"aten::softplus", Effect::computes},
    {"aten::sort", Effect::amplifies},
    {"aten::split", Effect::moves},
    {"aten::split_with_sizes", Effect::moves},
    {"aten::sqrt", Effect::amplifies},
    {"aten::square", Effect::computes},
    {"aten::squeeze", Effect::moves},
    {"aten::stack", Effect::moves},
    {"aten::sub", Effect::computes},
    {"aten::sum", Effect::computes},
    {"aten::sym_numel", Effect::asks_size},
    {"aten::sym_size", Effect::asks_size},
    {"aten::sym_storage_offset", Effect::asks_size},
    {"aten::sym_stride", Effect::asks_size},
    {"aten::t", Effect::moves},
    {"aten::tanh", Effect::computes},
    {"aten::topk", Effect::amplifies},
    {"aten::transpose", Effect::moves},
    {"aten::tril", Effect::moves},
    {"aten::triu", Effect::moves},
    {"aten::unbind", Effect::moves},
    {"aten::unfold", Effect::moves},
    {"aten::unsqueeze", Effect::moves},
    {"aten::upsample_nearest2d", Effect::moves},
    {"aten::var", Effect::computes},
    {"aten::var_mean", Effect::computes},
    {"aten::view", Effect::moves},
    {"aten::where", Effect::moves},
    {"aten::zeros_like", Effect::asks_size},
    {"getitem", Effect::moves},
    {"prims::convert_element_type", Effect::moves},
    {"prims::fma", Effect::computes},
    {"prims::view_of", Effect::moves},
};
static_assert(std::ranges::is_sorted(effects, {}, &EffectRow::op));

Effect effect_of(std::string_view op) noexcept {
  const EffectRow* row = std::ranges::lower_bound(effects, op, {}, &EffectRow::op);
  return row != std::end(effects) && row->op == op ? row->effect : Effect::unknown;
}

std::optional<double> number(const BackwardGraph::Argument* argument) {
  if (argument == nullptr || !argument->nodes.empty() || argument->text.empty()) return {};
  const char* const last = argument->text.data() + argument->text.size();
  double value = 0;
  const auto [end, error] = std::from_chars(argument->text.data(), last, value);
  return error == std::errc{} && end == last ? std::optional(value) : std::nullopt;
}

bool is_whole_power(const BackwardGraph::Node& node) {
  const auto exponent = number(node.argument("exponent"));
  return exponent && *exponent >= 1 && *exponent == std::trunc(*exponent);
}

bool names_a_float(const BackwardGraph::Argument* type) {
  constexpr std::array floats = {"torch.float32", "torch.float16", "torch.bfloat16",
                                 "torch.float64"};
  return type == nullptr || type->text == "None" ||
         std::ranges::find(floats, type->text) != floats.end();
}

/// Whether an argument of this name chooses among another one's elements.
bool chooses(std::string_view argument) {
  constexpr std::array names = {"condition", "indices", "index", "mask"};
  return std::ranges::find(names, argument) != names.end();
}

/// Finds what one saved tensor is read for.
class Walk {
 public:
  explicit Walk(const BackwardGraph& graph) : graph_(graph) {}

  std::vector<BackwardRead> reads_of(std::size_t saved) {
    follow(saved, {});
    while (!waiting_.empty() && !exact_) {
      const auto [node, state] = waiting_.back();
      waiting_.pop_back();
      for (const BackwardGraph::Reader& reader : graph_.nodes[node].readers) read(reader, state);
    }
    if (exact_) return {std::move(*exact_)};
    if (is_unknown_) return {};
    return std::move(reads_);
  }

 private:
  /// What became of the saved tensor on the way to a node.
  struct State {
    bool is_computed = false;  ///< something was computed from it
    bool is_spread = false;    ///< dimensions were added
    auto operator<=>(const State&) const = default;
  };

  void follow(std::size_t node, State state) {
    if (seen_.emplace(node, state).second) waiting_.emplace_back(node, state);
  }

  void read(const BackwardGraph::Reader& reader, State state) {
    const BackwardGraph::Node& node = graph_.nodes[reader.node];
    const std::string_view argument = node.arguments[reader.argument].name;
    if (node.is_gradient && touch(node, argument, state)) return;
    if (is_sign_test(node)) return read_sign(state);
    if (node.op == "aten::exp" && is_logistic(node)) return follow_logistic(node);
    switch (effect_on(node, argument)) {
      case Effect::moves:
        if (node.op == "aten::unsqueeze" || node.op == "aten::expand") state.is_spread = true;
        return pass(reader.node, state);
      case Effect::computes:
        // What is spread over another tensor's dimensions, as statistics are.
        if (state.is_spread && !state.is_computed && is_elementwise(node)) {
          return be_exact(node.op, argument);
        }
        return pass(reader.node, {true, state.is_spread});
      case Effect::amplifies:
        return state.is_computed ? give_up() : be_exact(node.op, argument);
      case Effect::equals:
        // Two tensors that were equal have to stay so.
        if (state.is_computed && number(node.argument("other"))) return give_up();
        return be_exact(node.op, argument);
      case Effect::asks_size:
        return;
      case Effect::unknown:
        return give_up();
    }
  }

  /// What `node` makes of its argument of this name.
  Effect effect_on(const BackwardGraph::Node& node, std::string_view argument) const {
    const Effect effect = effect_of(node.op);
    if (effect == Effect::asks_size) return effect;
    const bool rounds = node.argument("rounding_mode") != nullptr;
    if (rounds || chooses(argument) || !names_a_float(node.argument("dtype"))) {
      return Effect::unknown;
    }
    if (node.op == "aten::div" && argument == "other") return Effect::amplifies;
    if (node.op == "aten::pow" && argument == "self") {
      return is_whole_power(node) ? Effect::computes : Effect::amplifies;
    }
    if (node.op == "aten::exp" && is_bell(node)) return Effect::computes;
    return effect;
  }

  /// The result of a node that moves or computes values: where it depends on gradients it is linear
  /// in what it computes from.
  void pass(std::size_t node, State state) {
    if (!graph_.nodes[node].is_gradient) return follow(node, state);
    add({"aten::mul", "self"});
  }

  /// Handles an operator that operand.cpp knows. @return whether it does
  bool touch(const BackwardGraph::Node& node, std::string_view argument, State state) {
    if (node.op == "aten::threshold_backward" && argument == "self") {
      if (number(node.argument("threshold")) == 0.0) {
        read_sign(state);  // ReLU's
      } else {
        touch_operand({"aten::threshold", "self"}, state);
      }
      return true;
    }
    for (const Contact* row = std::ranges::lower_bound(contacts, node.op, {}, &Contact::op);
         row != std::end(contacts) && row->op == node.op; ++row) {
      if (row->argument != argument && row->argument != "*") continue;
      const std::string_view operand = row->operand == "*" ? argument : row->operand;
      touch_operand({std::string(row->of_op), std::string(operand)}, state);
      return true;
    }
    return false;
  }

  void touch_operand(BackwardRead as, State state) {
    const OperandFact fact = operand_fact(as.op, as.operand);
    const bool is_approximate =
        fact.kind == OperandKind::activation || fact.kind == OperandKind::factor ||
        (fact.kind == OperandKind::exact_unless_named && !state.is_computed);
    if (fact.kind == OperandKind::exact && !state.is_computed) {
      as.exact = true;
      exact_ = std::move(as);
    } else if (!is_approximate || (fact.reads == codecs::Reads::sign && state.is_computed)) {
      give_up();
    } else {
      add(std::move(as));
      if (state.is_computed) add({"aten::mul", "self"});
    }
  }

  void read_sign(State state) { state.is_computed ? give_up() : add({"aten::relu", "result"}); }

  /// Whether `node` asks x > 0 or x <= 0. Not x >= 0 and x < 0: zeros would have to stay zeros.
  static bool is_sign_test(const BackwardGraph::Node& node) {
    return (node.op == "aten::le" || node.op == "aten::gt") &&
           number(node.argument("other")) == 0.0;
  }

  /// Whether several tensors of one shape go into `node`.
  static bool is_elementwise(const BackwardGraph::Node& node) {
    constexpr std::array products = {"aten::addmm", "aten::baddbmm",     "aten::bmm",
                                     "aten::mm",    "aten::convolution", "aten::mv"};
    if (std::ranges::find(products, node.op) != products.end()) return false;
    return std::ranges::count_if(node.arguments, [](const BackwardGraph::Argument& argument) {
             return !argument.nodes.empty();
           }) > 1;
  }

  /// Whether `node` is exp(-c x²), whose slope is bounded.
  bool is_bell(const BackwardGraph::Node& node) const {
    const BackwardGraph::Node& scaled = graph_.nodes[node.arguments.front().nodes.front()];
    const auto factor = number(scaled.argument("other"));
    if (scaled.op != "aten::mul" || !factor || *factor >= 0) return false;
    const auto& squares = scaled.arguments.front().nodes;
    if (squares.size() != 1) return false;
    const BackwardGraph::Node& square = graph_.nodes[squares.front()];
    if (square.op == "aten::pow") return number(square.argument("exponent")) == 2.0;
    const BackwardGraph::Argument* const other = square.argument("other");
    return square.op == "aten::mul" && other != nullptr &&
           other->nodes == square.arguments.front().nodes;
  }

  /// Whether `node` is the exp of 1 / (1 + exp(x)), or of something over that: SiLU's sigmoid.
  bool is_logistic(const BackwardGraph::Node& node) const {
    return std::ranges::all_of(node.readers, [this](const BackwardGraph::Reader& plus) {
      const BackwardGraph::Node& sum = graph_.nodes[plus.node];
      const bool adds_one = sum.op == "aten::add" && number(sum.argument("other")) == 1.0;
      return adds_one &&
             std::ranges::all_of(sum.readers, [this](const BackwardGraph::Reader& under) {
               const BackwardGraph::Node& quotient = graph_.nodes[under.node];
               const std::string_view as = quotient.arguments[under.argument].name;
               return quotient.op == "aten::reciprocal" ||
                      (quotient.op == "aten::div" && as == "other");
             });
    });
  }

  void follow_logistic(const BackwardGraph::Node& node) {
    for (const BackwardGraph::Reader& plus : node.readers) {
      for (const BackwardGraph::Reader& under : graph_.nodes[plus.node].readers)
        pass(under.node, {true, false});
    }
  }

  void add(BackwardRead as) {
    const auto same = [&as](const BackwardRead& read) {
      return read.op == as.op && read.operand == as.operand;
    };
    if (std::ranges::none_of(reads_, same)) reads_.push_back(std::move(as));
  }

  void be_exact(std::string_view op, std::string_view operand) {
    exact_ = BackwardRead{std::string(op), std::string(operand), true};
  }

  void give_up() { is_unknown_ = true; }

  const BackwardGraph& graph_;
  std::set<std::pair<std::size_t, State>> seen_;
  std::vector<std::pair<std::size_t, State>> waiting_;
  std::vector<BackwardRead> reads_;
  std::optional<BackwardRead> exact_;
  bool is_unknown_ = false;
};

}  // namespace

std::vector<std::vector<BackwardRead>> backward_reads(std::string_view graph) {
  const auto parsed = parse_backward_graph(graph);
  std::vector<std::vector<BackwardRead>> reads;
  if (!parsed) return reads;
  for (const std::size_t saved : parsed->saved) reads.push_back(Walk(*parsed).reads_of(saved));
  return reads;
}

std::string in_words(const std::vector<BackwardRead>& reads) {
  std::string text;
  for (const BackwardRead& read : reads) {
    const std::string_view op = read.op;
    if (!text.empty()) text += ", ";
    text += op.substr(op.starts_with("aten::") ? 6 : 0);
    text += ' ';
    text += read.operand;
  }
  return text;
}

}  // namespace cinch::policy
