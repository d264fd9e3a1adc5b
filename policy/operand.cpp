// SPDX-License-Identifier: Apache-2.0
// Facts about what PyTorch's derivative formulas read. tests/policy/verify_operand_facts.py checks
// each claim of "sign", "interval" and "nothing" against the installed torch.
#include "policy/operand.h"

#include <algorithm>
#include <iterator>

#include "policy/match.h"

namespace cinch::policy {
namespace {

using codecs::Reads;

constexpr OperandFact rows{Reads::values, OperandKind::activation, false, 0};
constexpr OperandFact spatial{Reads::values, OperandKind::activation, true, 0};
constexpr OperandFact exact{Reads::values, OperandKind::exact, false, 0};
constexpr OperandFact sign{Reads::sign, OperandKind::activation, false, 0};
constexpr OperandFact unread{Reads::nothing, OperandKind::activation, false, 0};
// Kind `unknown`: without the bounds nothing is known that a policy could use.
constexpr OperandFact interval{Reads::interval, OperandKind::unknown, false, 0};
constexpr OperandFact interval_3{Reads::interval, OperandKind::unknown, false, 0, {-3, 3}};
constexpr OperandFact window_2d{Reads::values, OperandKind::window_index, true, 2};
constexpr OperandFact window_3d{Reads::values, OperandKind::window_index, true, 3};

struct Row {
  std::string_view op;
  std::string_view operand;  ///< "*" stands for every operand that no earlier row of the op names
  OperandFact fact;
};

// Sorted by op. An output is listed by its position, and by its name where the op's schema has one.
constexpr Row facts[] = {
    {"aten::_adaptive_avg_pool2d", "self", unread},
    {"aten::_adaptive_avg_pool3d", "self", unread},
    {"aten::_batch_norm_no_update", "input", spatial},
    {"aten::_batch_norm_no_update", "*", exact},
    {"aten::_batch_norm_with_update", "input", spatial},
    {"aten::_batch_norm_with_update", "*", exact},
    {"aten::_cudnn_attention_forward", "key", rows},
    {"aten::_cudnn_attention_forward", "output", rows},
    {"aten::_cudnn_attention_forward", "query", rows},
    {"aten::_cudnn_attention_forward", "result0", rows},
    {"aten::_cudnn_attention_forward", "value", rows},
    {"aten::_cudnn_attention_forward", "*", exact},
    {"aten::_efficient_attention_forward", "key", rows},
    {"aten::_efficient_attention_forward", "output", rows},
    {"aten::_efficient_attention_forward", "query", rows},
    {"aten::_efficient_attention_forward", "result0", rows},
    {"aten::_efficient_attention_forward", "value", rows},
    {"aten::_efficient_attention_forward", "*", exact},
    {"aten::_flash_attention_forward", "key", rows},
    {"aten::_flash_attention_forward", "output", rows},
    {"aten::_flash_attention_forward", "query", rows},
    {"aten::_flash_attention_forward", "result0", rows},
    {"aten::_flash_attention_forward", "value", rows},
    {"aten::_flash_attention_forward", "*", exact},
    {"aten::_fused_rms_norm", "input", rows},
    {"aten::_fused_rms_norm", "*", exact},
    {"aten::_log_softmax", "*", exact},
    {"aten::_masked_softmax", "*", exact},
    {"aten::_native_batch_norm_legit", "input", spatial},
    {"aten::_native_batch_norm_legit", "*", exact},
    {"aten::_native_batch_norm_legit_no_training", "input", spatial},
    {"aten::_native_batch_norm_legit_no_training", "*", exact},
    {"aten::_prelu_kernel", "self", rows},
    {"aten::_prelu_kernel", "*", exact},
    {"aten::_safe_softmax", "*", exact},
    {"aten::_scaled_dot_product_cudnn_attention", "key", rows},
    {"aten::_scaled_dot_product_cudnn_attention", "output", rows},
    {"aten::_scaled_dot_product_cudnn_attention", "query", rows},
    {"aten::_scaled_dot_product_cudnn_attention", "result0", rows},
    {"aten::_scaled_dot_product_cudnn_attention", "value", rows},
    {"aten::_scaled_dot_product_cudnn_attention", "*", exact},
    {"aten::_scaled_dot_product_efficient_attention", "key", rows},
    {"aten::_scaled_dot_product_efficient_attention", "output", rows},
    {"aten::_scaled_dot_product_efficient_attention", "query", rows},
    {"aten::_scaled_dot_product_efficient_attention", "result0", rows},
    {"aten::_scaled_dot_product_efficient_attention", "value", rows},
    {"aten::_scaled_dot_product_efficient_attention", "*", exact},
    {"aten::_scaled_dot_product_flash_attention", "key", rows},
    {"aten::_scaled_dot_product_flash_attention", "output", rows},
    {"aten::_scaled_dot_product_flash_attention", "query", rows},
    {"aten::_scaled_dot_product_flash_attention", "result0", rows},
    {"aten::_scaled_dot_product_flash_attention", "value", rows},
    {"aten::_scaled_dot_product_flash_attention", "*", exact},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "key", rows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "output", rows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "query", rows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "result0", rows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "value", rows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "*", exact},
    {"aten::_softmax", "*", exact},
    {"aten::adaptive_max_pool2d", "result1", window_2d},
    {"aten::adaptive_max_pool2d", "self", unread},
    {"aten::adaptive_max_pool3d", "result1", window_3d},
    {"aten::adaptive_max_pool3d", "self", unread},
    // mat1 and mat2 are the linear layer's input and its transposed weight; the weight is a
    // parameter's view, which the hooks never take.
    {"aten::addmm", "mat1", rows},
    {"aten::addmm", "mat2", rows},
    {"aten::avg_pool2d", "self", unread},
    {"aten::avg_pool3d", "self", unread},
    {"aten::baddbmm", "batch1", rows},
    {"aten::baddbmm", "batch2", rows},
    {"aten::bmm", "mat2", rows},
    {"aten::bmm", "self", rows},
    {"aten::celu", "result", rows},
    {"aten::celu", "self", rows},
    {"aten::convolution", "input", spatial},
    {"aten::convolution", "*", exact},
    {"aten::convolution_overrideable", "input", spatial},
    {"aten::convolution_overrideable", "*", exact},
    {"aten::cudnn_batch_norm", "input", spatial},
    {"aten::cudnn_batch_norm", "*", exact},
    {"aten::elu", "result", rows},
    {"aten::elu", "self", rows},
    {"aten::embedding", "*", exact},
    {"aten::gelu", "self", rows},
    {"aten::glu", "self", rows},
    {"aten::hardsigmoid", "self", interval_3},
    {"aten::hardswish", "self", rows},
    {"aten::hardtanh", "self", interval},
    // The in-place variant reads its result, whose sign is the input's: PyTorch refuses negative
    // slopes there.
    {"aten::leaky_relu", "result", sign},
    {"aten::leaky_relu", "self", sign},
    {"aten::linear", "input", rows},
    {"aten::linear", "*", exact},
    {"aten::max_pool2d_with_indices", "result1", window_2d},
    {"aten::max_pool2d_with_indices", "self", unread},
    {"aten::max_pool3d_with_indices", "result1", window_3d},
    {"aten::max_pool3d_with_indices", "self", unread},
    {"aten::mish", "self", rows},
    {"aten::mm", "mat2", rows},
    {"aten::mm", "self", rows},
    {"aten::native_batch_norm", "input", spatial},
    {"aten::native_batch_norm", "*", exact},
    {"aten::native_group_norm", "input", spatial},
    {"aten::native_group_norm", "*", exact},
    {"aten::native_layer_norm", "input", rows},
    {"aten::native_layer_norm", "*", exact},
    {"aten::nll_loss2d_forward", "*", exact},
    {"aten::nll_loss_forward", "*", exact},
    {"aten::relu", "result", sign},
    {"aten::sigmoid", "result", rows},
    {"aten::silu", "self", rows},
    {"aten::softplus", "self", rows},
    {"aten::tanh", "result", rows},
};
static_assert(std::ranges::is_sorted(facts, {}, &Row::op));

}  // namespace

OperandFact operand_fact(std::string_view op, std::string_view operand) noexcept {
  const std::string_view name = functional_name(op);
  for (const Row* row = std::ranges::lower_bound(facts, name, {}, &Row::op);
       row != std::end(facts) && row->op == name; ++row) {
    if (row->operand == operand || row->operand == "*") return row->fact;
  }
  return {};
}

std::optional<codecs::IntervalBounds> interval_of(const OperandFact& fact,
                                                  const Use& use) noexcept {
  if (fact.reads != Reads::interval) return std::nullopt;
  for (const codecs::IntervalBounds& bounds : {use.bounds, fact.bounds}) {
    if (bounds.lower < bounds.upper) return bounds;
  }
  return std::nullopt;
}

Reads reads_of(const OperandFact& fact, const Use& use) noexcept {
  const bool is_unknown_interval = fact.reads == Reads::interval && !interval_of(fact, use);
  return is_unknown_interval ? Reads::values : fact.reads;
}

}  // namespace cinch::policy
