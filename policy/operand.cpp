// SPDX-License-Identifier: Apache-2.0
// Facts about what PyTorch's derivative formulas read. tests/policy/verify_operand_facts.py checks
// each claim of "sign" and "nothing" against the installed torch.
#include "policy/operand.h"

#include <algorithm>

#include "policy/match.h"

namespace cinch::policy {
namespace {

using codecs::Reads;

constexpr OperandFact kRows{Reads::values, OperandKind::activation, false, 0};
constexpr OperandFact kSpatial{Reads::values, OperandKind::activation, true, 0};
constexpr OperandFact kExact{Reads::values, OperandKind::exact, false, 0};
constexpr OperandFact kSign{Reads::sign, OperandKind::activation, false, 0};
constexpr OperandFact kUnread{Reads::nothing, OperandKind::activation, false, 0};
constexpr OperandFact kWindow2d{Reads::values, OperandKind::window_index, true, 2};
constexpr OperandFact kWindow3d{Reads::values, OperandKind::window_index, true, 3};

struct Row {
  std::string_view op;
  std::string_view operand;  ///< "*" stands for every operand that no earlier row of the op names
  OperandFact fact;
};

// Sorted by op. Outputs carry the names that the op's schema gives them where it does, besides
// their positions.
constexpr Row kFacts[] = {
    {"aten::_adaptive_avg_pool2d", "self", kUnread},
    {"aten::_adaptive_avg_pool3d", "self", kUnread},
    {"aten::_batch_norm_no_update", "input", kSpatial},
    {"aten::_batch_norm_no_update", "*", kExact},
    {"aten::_batch_norm_with_update", "input", kSpatial},
    {"aten::_batch_norm_with_update", "*", kExact},
    {"aten::_cudnn_attention_forward", "key", kRows},
    {"aten::_cudnn_attention_forward", "output", kRows},
    {"aten::_cudnn_attention_forward", "query", kRows},
    {"aten::_cudnn_attention_forward", "result0", kRows},
    {"aten::_cudnn_attention_forward", "value", kRows},
    {"aten::_cudnn_attention_forward", "*", kExact},
    {"aten::_efficient_attention_forward", "key", kRows},
    {"aten::_efficient_attention_forward", "output", kRows},
    {"aten::_efficient_attention_forward", "query", kRows},
    {"aten::_efficient_attention_forward", "result0", kRows},
    {"aten::_efficient_attention_forward", "value", kRows},
    {"aten::_efficient_attention_forward", "*", kExact},
    {"aten::_flash_attention_forward", "key", kRows},
    {"aten::_flash_attention_forward", "output", kRows},
    {"aten::_flash_attention_forward", "query", kRows},
    {"aten::_flash_attention_forward", "result0", kRows},
    {"aten::_flash_attention_forward", "value", kRows},
    {"aten::_flash_attention_forward", "*", kExact},
    {"aten::_fused_rms_norm", "input", kRows},
    {"aten::_fused_rms_norm", "*", kExact},
    {"aten::_log_softmax", "*", kExact},
    {"aten::_masked_softmax", "*", kExact},
    {"aten::_native_batch_norm_legit", "input", kSpatial},
    {"aten::_native_batch_norm_legit", "*", kExact},
    {"aten::_native_batch_norm_legit_no_training", "input", kSpatial},
    {"aten::_native_batch_norm_legit_no_training", "*", kExact},
    {"aten::_prelu_kernel", "self", kRows},
    {"aten::_prelu_kernel", "*", kExact},
    {"aten::_safe_softmax", "*", kExact},
    {"aten::_scaled_dot_product_cudnn_attention", "key", kRows},
    {"aten::_scaled_dot_product_cudnn_attention", "output", kRows},
    {"aten::_scaled_dot_product_cudnn_attention", "query", kRows},
    {"aten::_scaled_dot_product_cudnn_attention", "result0", kRows},
    {"aten::_scaled_dot_product_cudnn_attention", "value", kRows},
    {"aten::_scaled_dot_product_cudnn_attention", "*", kExact},
    {"aten::_scaled_dot_product_efficient_attention", "key", kRows},
    {"aten::_scaled_dot_product_efficient_attention", "output", kRows},
    {"aten::_scaled_dot_product_efficient_attention", "query", kRows},
    {"aten::_scaled_dot_product_efficient_attention", "result0", kRows},
    {"aten::_scaled_dot_product_efficient_attention", "value", kRows},
    {"aten::_scaled_dot_product_efficient_attention", "*", kExact},
    {"aten::_scaled_dot_product_flash_attention", "key", kRows},
    {"aten::_scaled_dot_product_flash_attention", "output", kRows},
    {"aten::_scaled_dot_product_flash_attention", "query", kRows},
    {"aten::_scaled_dot_product_flash_attention", "result0", kRows},
    {"aten::_scaled_dot_product_flash_attention", "value", kRows},
    {"aten::_scaled_dot_product_flash_attention", "*", kExact},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "key", kRows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "output", kRows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "query", kRows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "result0", kRows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "value", kRows},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "*", kExact},
    {"aten::_softmax", "*", kExact},
    {"aten::adaptive_max_pool2d", "result1", kWindow2d},
    {"aten::adaptive_max_pool2d", "self", kUnread},
    {"aten::adaptive_max_pool3d", "result1", kWindow3d},
    {"aten::adaptive_max_pool3d", "self", kUnread},
    // mat1 and mat2 are the linear layer's input and its transposed weight; the weight is a
    // parameter's view, which the hooks never take.
    {"aten::addmm", "mat1", kRows},
    {"aten::addmm", "mat2", kRows},
    {"aten::avg_pool2d", "self", kUnread},
    {"aten::avg_pool3d", "self", kUnread},
    {"aten::baddbmm", "batch1", kRows},
    {"aten::baddbmm", "batch2", kRows},
    {"aten::bmm", "mat2", kRows},
    {"aten::bmm", "self", kRows},
    {"aten::celu", "result", kRows},
    {"aten::celu", "self", kRows},
    {"aten::convolution", "input", kSpatial},
    {"aten::convolution", "*", kExact},
    {"aten::convolution_overrideable", "input", kSpatial},
    {"aten::convolution_overrideable", "*", kExact},
    {"aten::cudnn_batch_norm", "input", kSpatial},
    {"aten::cudnn_batch_norm", "*", kExact},
    {"aten::elu", "result", kRows},
    {"aten::elu", "self", kRows},
    {"aten::embedding", "*", kExact},
    {"aten::gelu", "self", kRows},
    {"aten::glu", "self", kRows},
    {"aten::hardswish", "self", kRows},
    // The in-place variant reads its result, whose sign is the input's: PyTorch refuses negative
    // slopes there.
    {"aten::leaky_relu", "result", kSign},
    {"aten::leaky_relu", "self", kSign},
    {"aten::linear", "input", kRows},
    {"aten::linear", "*", kExact},
    {"aten::max_pool2d_with_indices", "result1", kWindow2d},
    {"aten::max_pool2d_with_indices", "self", kUnread},
    {"aten::max_pool3d_with_indices", "result1", kWindow3d},
    {"aten::max_pool3d_with_indices", "self", kUnread},
    {"aten::mish", "self", kRows},
    {"aten::mm", "mat2", kRows},
    {"aten::mm", "self", kRows},
    {"aten::native_batch_norm", "input", kSpatial},
    {"aten::native_batch_norm", "*", kExact},
    {"aten::native_group_norm", "input", kSpatial},
    {"aten::native_group_norm", "*", kExact},
    {"aten::native_layer_norm", "input", kRows},
    {"aten::native_layer_norm", "*", kExact},
    {"aten::nll_loss2d_forward", "*", kExact},
    {"aten::nll_loss_forward", "*", kExact},
    {"aten::relu", "result", kSign},
    {"aten::sigmoid", "result", kRows},
    {"aten::silu", "self", kRows},
    {"aten::softplus", "self", kRows},
    {"aten::tanh", "result", kRows},
};
static_assert(std::ranges::is_sorted(kFacts, {}, &Row::op));

}  // namespace

OperandFact operand_fact(std::string_view op, std::string_view operand) noexcept {
  for (const Row& row : std::ranges::equal_range(kFacts, functional_name(op), {}, &Row::op)) {
    if (row.operand == operand || row.operand == "*") return row.fact;
  }
  return {};
}

}  // namespace cinch::policy
