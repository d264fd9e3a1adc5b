// SPDX-License-Identifier: Apache-2.0
// Facts about what PyTorch's derivative formulas read. tests/policy/verify_operand_facts.py checks
// each claim of "sign", "interval", "nothing" and "signed_rows" against the installed torch, that
// factors tolerate small errors, and that what is compared or divided by does not.
// tests/policy/operand_coverage.py lists the operators that have no row.
#include "policy/operand.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "policy/match.h"

namespace cinch::policy {
namespace {

using codecs::Reads;

constexpr OperandFact rows{Reads::values, OperandKind::activation, false, 0};
constexpr OperandFact signed_rows{Reads::values, OperandKind::activation, false, 0, {0, 0}, true};
constexpr OperandFact spatial{Reads::values, OperandKind::activation, true, 0};
constexpr OperandFact factor{Reads::values, OperandKind::factor, false, 0};
constexpr OperandFact factor_with_poles{Reads::values, OperandKind::factor, false, 0, {0, 0}, false,
                                        true};
constexpr OperandFact base{Reads::values, OperandKind::base, false, 0};
constexpr OperandFact reduced{Reads::values, OperandKind::reduced, false, 0};
constexpr OperandFact exact{Reads::values, OperandKind::exact, false, 0};
constexpr OperandFact sign{Reads::sign, OperandKind::activation, false, 0};
constexpr OperandFact unread{Reads::nothing, OperandKind::activation, false, 0};
// Kind `unknown`: without the bounds nothing is known that a policy could use.
constexpr OperandFact interval{Reads::interval, OperandKind::unknown, false, 0};
constexpr OperandFact interval_3{Reads::interval, OperandKind::unknown, false, 0, {-3, 3}};
constexpr OperandFact window_2d{Reads::values, OperandKind::window_index, true, 2};
constexpr OperandFact window_3d{Reads::values, OperandKind::window_index, true, 3};

// `exact` stands for what is compared (max, clamp) or divided by, and for values close to a pole
// (log, tan): there a small error makes a large one. Of reciprocal and rsqrt too: powers of their
// results are read, and few large results would set the error of all others.
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
    {"aten::_cdist_forward", "*", exact},
    {"aten::_conv_depthwise2d", "self", spatial},
    {"aten::_conv_depthwise2d", "*", exact},
    {"aten::_convolution", "input", spatial},
    {"aten::_convolution", "*", exact},
    {"aten::_ctc_loss", "*", exact},
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
    {"aten::_embedding_bag", "per_sample_weights", factor},
    {"aten::_embedding_bag", "*", exact},
    {"aten::_euclidean_dist", "*", exact},
    {"aten::_fake_quantize_learnable_per_channel_affine", "*", exact},
    {"aten::_fake_quantize_learnable_per_tensor_affine", "*", exact},
    {"aten::_fft_r2c", "self", unread},
    {"aten::_flash_attention_forward", "key", rows},
    {"aten::_flash_attention_forward", "output", rows},
    {"aten::_flash_attention_forward", "query", rows},
    {"aten::_flash_attention_forward", "result0", rows},
    {"aten::_flash_attention_forward", "value", rows},
    {"aten::_flash_attention_forward", "*", exact},
    {"aten::_fused_rms_norm", "input", rows},
    {"aten::_fused_rms_norm", "*", exact},
    {"aten::_grouped_mm", "self", rows},
    {"aten::_grouped_mm", "mat2", rows},
    {"aten::_log_softmax", "*", exact},
    {"aten::_log_softmax_backward_data", "grad_output", factor},
    {"aten::_log_softmax_backward_data", "*", exact},
    {"aten::_masked_softmax", "*", exact},
    {"aten::_native_batch_norm_legit", "input", spatial},
    {"aten::_native_batch_norm_legit", "*", exact},
    {"aten::_native_batch_norm_legit_no_training", "input", spatial},
    {"aten::_native_batch_norm_legit_no_training", "*", exact},
    {"aten::_pdist_forward", "*", exact},
    // The gradient of the input depends on the sign alone, that of the weight on values below 0.
    {"aten::_prelu_kernel", "self", signed_rows},
    {"aten::_prelu_kernel", "*", exact},
    {"aten::_safe_softmax", "result", factor},
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
    {"aten::_slow_conv2d_forward", "self", spatial},
    {"aten::_slow_conv2d_forward", "*", exact},
    {"aten::_softmax", "result", factor},
    {"aten::_softmax", "*", exact},
    {"aten::_softmax_backward_data", "grad_output", factor},
    {"aten::_softmax_backward_data", "output", factor},
    {"aten::_trilinear", "i1", factor},
    {"aten::_trilinear", "i2", factor},
    {"aten::_trilinear", "i3", factor},
    {"aten::_weight_norm_interface", "*", exact},
    {"aten::abs", "self", exact},
    {"aten::acos", "self", exact},
    {"aten::acosh", "self", exact},
    {"aten::adaptive_max_pool2d", "result1", window_2d},
    {"aten::adaptive_max_pool2d", "self", unread},
    {"aten::adaptive_max_pool3d", "result1", window_3d},
    {"aten::adaptive_max_pool3d", "self", unread},
    {"aten::addbmm", "batch1", rows},
    {"aten::addbmm", "batch2", rows},
    {"aten::addcdiv", "tensor1", factor},
    {"aten::addcdiv", "tensor2", exact},
    {"aten::addcmul", "tensor1", factor},
    {"aten::addcmul", "tensor2", factor},
    // mat1 and mat2 are the linear layer's input and its transposed weight; the weight is a
    // parameter's view, which the hooks never take.
    {"aten::addmm", "mat1", rows},
    {"aten::addmm", "mat2", rows},
    {"aten::addmv", "mat", factor},
    {"aten::addmv", "vec", factor},
    {"aten::addr", "vec1", factor},
    {"aten::addr", "vec2", factor},
    {"aten::amax", "*", exact},
    {"aten::amin", "*", exact},
    {"aten::asin", "self", exact},
    {"aten::asinh", "self", factor_with_poles},
    {"aten::atan", "self", factor_with_poles},
    {"aten::atan2", "*", exact},
    {"aten::atanh", "self", exact},
    {"aten::avg_pool2d", "self", unread},
    {"aten::avg_pool3d", "self", unread},
    {"aten::baddbmm", "batch1", rows},
    {"aten::baddbmm", "batch2", rows},
    {"aten::batch_norm_backward", "grad_out", spatial},
    {"aten::batch_norm_backward", "input", spatial},
    {"aten::batch_norm_backward", "*", exact},
    {"aten::binary_cross_entropy", "self", exact},
    {"aten::binary_cross_entropy_with_logits", "self", factor},
    {"aten::binary_cross_entropy_with_logits", "target", factor},
    {"aten::bmm", "mat2", rows},
    {"aten::bmm", "self", rows},
    {"aten::celu", "result", rows},
    {"aten::celu", "self", rows},
    {"aten::clamp", "*", exact},
    {"aten::clamp_max", "*", exact},
    {"aten::clamp_min", "*", exact},
    // The formulas call at::real(grad) and at::imag(grad): PyTorch saves operands of these names.
    {"aten::complex", "imag", unread},
    {"aten::complex", "real", unread},
    {"aten::conv_depthwise3d", "self", spatial},
    {"aten::conv_depthwise3d", "*", exact},
    {"aten::conv_tbc", "self", rows},
    {"aten::conv_tbc", "*", exact},
    {"aten::convolution", "input", spatial},
    {"aten::convolution", "*", exact},
    {"aten::convolution_backward", "grad_output", spatial},
    {"aten::convolution_backward", "input", spatial},
    {"aten::convolution_backward", "*", exact},
    {"aten::convolution_overrideable", "input", spatial},
    {"aten::convolution_overrideable", "*", exact},
    {"aten::copysign", "*", exact},
    {"aten::cudnn_batch_norm", "input", spatial},
    {"aten::cudnn_batch_norm", "*", exact},
    {"aten::cudnn_batch_norm_backward", "grad_output", spatial},
    {"aten::cudnn_batch_norm_backward", "input", spatial},
    {"aten::cudnn_batch_norm_backward", "*", exact},
    {"aten::cummax", "self", unread},
    {"aten::cummin", "self", unread},
    {"aten::cumprod", "*", exact},
    {"aten::div", "self", factor},
    {"aten::div", "other", exact},
    {"aten::dot", "self", factor},
    {"aten::dot", "tensor", factor},
    {"aten::elu", "result", rows},
    {"aten::elu", "self", rows},
    {"aten::embedding", "*", exact},
    {"aten::erf", "self", factor},
    {"aten::erfc", "self", factor},
    {"aten::exp", "result", factor},
    {"aten::exp2", "result", factor},
    {"aten::expm1", "result", factor},
    {"aten::fmax", "*", exact},
    {"aten::fmin", "*", exact},
    {"aten::fmod", "other", exact},
    {"aten::fmod", "self", exact},
    {"aten::fractional_max_pool2d", "self", unread},
    {"aten::fractional_max_pool3d", "self", unread},
    {"aten::gather", "self", unread},
    {"aten::gelu", "self", rows},
    {"aten::gelu_backward", "grad_output", factor},
    {"aten::gelu_backward", "self", factor},
    {"aten::glu", "self", rows},
    {"aten::glu_backward", "grad_output", factor},
    {"aten::glu_backward", "self", factor},
    {"aten::grid_sampler_2d", "input", factor},
    {"aten::grid_sampler_2d", "*", exact},
    {"aten::grid_sampler_3d", "input", factor},
    {"aten::grid_sampler_3d", "*", exact},
    {"aten::hardshrink", "self", exact},
    {"aten::hardsigmoid", "self", interval_3},
    {"aten::hardswish", "self", rows},
    {"aten::hardswish_backward", "grad_output", factor},
    {"aten::hardswish_backward", "self", exact},
    {"aten::hardtanh", "self", interval},
    {"aten::huber_loss", "self", factor},
    {"aten::huber_loss", "target", factor},
    {"aten::huber_loss_backward", "grad_output", factor},
    {"aten::huber_loss_backward", "*", exact},
    {"aten::hypot", "*", exact},
    {"aten::index_add", "source", unread},
    {"aten::index_copy", "source", unread},
    // The in-place variant reads its result, whose sign is the input's: PyTorch refuses negative
    // slopes there.
    {"aten::leaky_relu", "result", sign},
    {"aten::leaky_relu", "self", sign},
    {"aten::leaky_relu_backward", "self", sign},
    {"aten::lerp", "end", factor},
    {"aten::lerp", "self", factor},
    {"aten::lerp", "weight", factor},
    {"aten::linalg_cross", "other", factor},
    {"aten::linalg_cross", "self", factor},
    {"aten::linalg_vector_norm", "result", exact},
    {"aten::linear", "input", rows},
    {"aten::linear", "*", exact},
    {"aten::log", "self", exact},
    {"aten::log10", "self", exact},
    {"aten::log1p", "self", exact},
    {"aten::log2", "self", exact},
    {"aten::log_sigmoid_backward", "grad_output", factor},
    {"aten::log_sigmoid_backward", "self", factor},
    {"aten::log_sigmoid_backward", "*", exact},
    {"aten::log_sigmoid_forward", "self", factor},
    {"aten::log_sigmoid_forward", "*", exact},
    {"aten::logaddexp", "*", exact},
    {"aten::logaddexp2", "*", exact},
    {"aten::logcumsumexp", "*", exact},
    {"aten::logit", "self", exact},
    {"aten::logsumexp", "*", exact},
    {"aten::masked_select", "self", unread},
    {"aten::max", "*", exact},
    {"aten::max_pool2d_with_indices", "result1", window_2d},
    {"aten::max_pool2d_with_indices", "self", unread},
    {"aten::max_pool3d_with_indices", "result1", window_3d},
    {"aten::max_pool3d_with_indices", "self", unread},
    {"aten::maximum", "*", exact},
    {"aten::median", "*", exact},
    {"aten::min", "*", exact},
    {"aten::minimum", "*", exact},
    {"aten::mish", "self", rows},
    {"aten::mkldnn_rnn_layer", "input", factor},
    {"aten::mkldnn_rnn_layer", "result0", factor},
    {"aten::mkldnn_rnn_layer", "result3", factor},  // gates and states, where its bytes are floats
    {"aten::mkldnn_rnn_layer", "*", exact},
    {"aten::mm", "mat2", rows},
    {"aten::mm", "self", rows},
    {"aten::mse_loss", "self", factor},
    {"aten::mse_loss", "target", factor},
    {"aten::mse_loss_backward", "grad_output", factor},
    {"aten::mse_loss_backward", "self", factor},
    {"aten::mse_loss_backward", "target", factor},
    {"aten::mul", "self", factor},
    {"aten::mul", "other", factor},
    {"aten::multi_margin_loss", "self", exact},
    {"aten::mv", "self", factor},
    {"aten::mv", "vec", factor},
    {"aten::nan_to_num", "self", factor},
    {"aten::nanmedian", "*", exact},
    {"aten::nansum", "self", factor},
    {"aten::native_batch_norm", "input", spatial},
    {"aten::native_batch_norm", "*", exact},
    {"aten::native_batch_norm_backward", "grad_out", spatial},
    {"aten::native_batch_norm_backward", "input", spatial},
    {"aten::native_batch_norm_backward", "*", exact},
    {"aten::native_group_norm", "input", spatial},
    {"aten::native_group_norm", "*", exact},
    {"aten::native_layer_norm", "input", rows},
    {"aten::native_layer_norm", "*", exact},
    {"aten::native_layer_norm_backward", "grad_out", rows},
    {"aten::native_layer_norm_backward", "input", rows},
    {"aten::native_layer_norm_backward", "*", exact},
    {"aten::nll_loss2d_forward", "*", exact},
    {"aten::nll_loss_forward", "*", exact},
    {"aten::norm", "result", exact},
    {"aten::pow", "self", base},
    {"aten::pow", "result", factor},
    {"aten::prod", "*", exact},
    {"aten::put", "source", unread},
    {"aten::reciprocal", "result", exact},
    {"aten::reflection_pad1d", "self", unread},
    {"aten::reflection_pad2d", "self", unread},
    {"aten::reflection_pad3d", "self", unread},
    {"aten::relu", "result", sign},
    {"aten::remainder", "other", exact},
    {"aten::remainder", "self", exact},
    {"aten::replication_pad1d", "self", unread},
    {"aten::replication_pad2d", "self", unread},
    {"aten::replication_pad3d", "self", unread},
    {"aten::rrelu_with_noise", "result", sign},
    {"aten::rrelu_with_noise", "self", sign},
    {"aten::rsqrt", "result", exact},
    {"aten::scatter_reduce", "index", exact},
    {"aten::scatter_reduce", "*", reduced},
    {"aten::sigmoid", "result", rows},
    {"aten::sigmoid_backward", "grad_output", factor},
    {"aten::sigmoid_backward", "output", factor},
    {"aten::silu", "self", rows},
    {"aten::slow_conv3d_forward", "self", spatial},
    {"aten::slow_conv3d_forward", "*", exact},
    {"aten::slow_conv_dilated2d", "self", spatial},
    {"aten::slow_conv_dilated2d", "*", exact},
    {"aten::slow_conv_dilated3d", "self", spatial},
    {"aten::slow_conv_dilated3d", "*", exact},
    {"aten::slow_conv_transpose2d", "self", spatial},
    {"aten::slow_conv_transpose2d", "*", exact},
    {"aten::slow_conv_transpose3d", "self", spatial},
    {"aten::slow_conv_transpose3d", "*", exact},
    {"aten::smooth_l1_loss", "self", factor},
    {"aten::smooth_l1_loss", "target", factor},
    {"aten::smooth_l1_loss_backward", "grad_output", factor},
    {"aten::smooth_l1_loss_backward", "*", exact},
    {"aten::soft_margin_loss", "self", factor},
    {"aten::soft_margin_loss", "target", factor},
    {"aten::softplus", "self", rows},
    {"aten::softplus_backward", "grad_output", factor},
    {"aten::softplus_backward", "self", factor},
    {"aten::softshrink", "self", exact},
    {"aten::special_entr", "self", exact},
    {"aten::special_xlog1py", "*", exact},
    {"aten::sqrt", "result", exact},
    {"aten::std", "self", factor},
    {"aten::std", "*", exact},
    {"aten::std_mean", "self", factor},
    {"aten::std_mean", "*", exact},
    {"aten::take", "self", unread},
    {"aten::tan", "result", exact},
    {"aten::tanh", "result", rows},
    {"aten::tanh_backward", "grad_output", factor},
    {"aten::tanh_backward", "output", factor},
    {"aten::threshold", "self", exact},
    {"aten::threshold_backward", "self", exact},
    {"aten::var", "self", factor},
    {"aten::var_mean", "self", factor},
    {"aten::var_mean", "*", exact},
    {"aten::vdot", "other", factor},
    {"aten::vdot", "self", factor},
    {"aten::xlogy", "*", exact},
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

OperandFact fact_of(const BackwardRead& read) noexcept {
  if (read.exact) return exact;
  OperandFact fact = operand_fact(read.op, read.operand);
  if (fact.reads == Reads::sign || fact.reads == Reads::nothing) {
    const bool reads_sign = fact.reads == Reads::sign;
    fact = factor;
    fact.exact_sign = reads_sign;
  }
  fact.reads = Reads::values;
  return fact;
}

std::optional<codecs::IntervalBounds> interval_of(const OperandFact& fact,
                                                  const Use& use) noexcept {
  if (fact.reads != Reads::interval) return std::nullopt;
  for (const codecs::IntervalBounds& bounds : {use.bounds, fact.bounds}) {
    if (bounds.lower < bounds.upper) return bounds;
  }
  return std::nullopt;
}

OperandKind kind_of(const OperandFact& fact, const Use& use) noexcept {
  if (fact.kind == OperandKind::reduced) return OperandKind::unknown;
  if (fact.has_poles && use.is_complex) return OperandKind::unknown;
  if (fact.kind != OperandKind::base) return fact.kind;
  // A fractional power of a value that an approximation made negative is NaN.
  const bool is_polynomial = use.exponent >= 1 && use.exponent == std::trunc(use.exponent);
  return is_polynomial ? OperandKind::factor : OperandKind::unknown;
}

Reads reads_of(const OperandFact& fact, const Use& use) noexcept {
  if (fact.kind == OperandKind::reduced && use.is_linear_reduction) return Reads::nothing;
  const bool is_unknown_interval = fact.reads == Reads::interval && !interval_of(fact, use);
  return is_unknown_interval ? Reads::values : fact.reads;
}

}  // namespace cinch::policy
