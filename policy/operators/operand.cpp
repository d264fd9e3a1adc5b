// SPDX-License-Identifier: Apache-2.0
// Facts about what PyTorch's derivative formulas read (tools/autograd/derivatives.yaml).
// tests/policy/operators/verify_operand_facts.py checks them against the installed torch: that
// "sign", "interval" and "nothing" are all that is read, that factors tolerate small errors and
// angles small absolute ones, and that what is exact tolerates neither.
// tests/policy/operators/operand_coverage.py lists what autograd saves without a fact.
#include "policy/operators/operand.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <ranges>

#include "codecs/element_bits.h"
#include "policy/match.h"

namespace cinch::policy {
namespace {

using codecs::Reads;

constexpr OperandFact rows{.kind = OperandKind::activation};
constexpr OperandFact heads{.kind = OperandKind::activation, .is_heads = true};
constexpr OperandFact signed_rows{.kind = OperandKind::activation, .exact_sign = true};
constexpr OperandFact rows_for_others{.kind = OperandKind::activation, .for_others = true};
constexpr OperandFact spatial_for_others{
    .kind = OperandKind::activation, .spatial = true, .for_others = true};
constexpr OperandFact spatial{.kind = OperandKind::activation, .spatial = true};
constexpr OperandFact factor{.kind = OperandKind::factor};
constexpr OperandFact factor_for_others{.kind = OperandKind::factor, .for_others = true};
constexpr OperandFact signed_factor{.kind = OperandKind::factor, .exact_sign = true};
constexpr OperandFact factor_with_poles{.kind = OperandKind::factor, .has_poles = true};
constexpr OperandFact angle{.kind = OperandKind::angle};
constexpr OperandFact base{.kind = OperandKind::base};
constexpr OperandFact normed{.kind = OperandKind::normed};
constexpr OperandFact reduced{.kind = OperandKind::reduced};
constexpr OperandFact compared_with_other{.kind = OperandKind::compared};
constexpr OperandFact exact{.kind = OperandKind::exact};
constexpr OperandFact exact_unless_named{.kind = OperandKind::exact_unless_named};
constexpr OperandFact exact_mask{.kind = OperandKind::exact, .may_be_mask = true};
constexpr OperandFact sign{Reads::sign, OperandKind::activation};
constexpr OperandFact unread{Reads::nothing, OperandKind::activation};
// Kind `unknown`: without the bounds nothing is known that a policy could use.
constexpr OperandFact open_interval{.reads = Reads::interval, .interval = Interval::open};
constexpr OperandFact interval_3{.reads = Reads::interval, .interval = Interval::between_3};
/// Without the bounds the values have to be exact.
constexpr OperandFact compared(Interval interval) {
  return {.reads = Reads::interval, .kind = OperandKind::exact, .interval = interval};
}
constexpr OperandFact closed_interval = compared(Interval::closed);
constexpr OperandFact at_least = compared(Interval::at_least);
constexpr OperandFact at_most = compared(Interval::at_most);
constexpr OperandFact above = compared(Interval::above);
constexpr OperandFact around_0 = compared(Interval::closed_around_0);
constexpr OperandFact window_2d{
    .kind = OperandKind::window_index, .spatial = true, .plane_rank = 2};
constexpr OperandFact window_3d{
    .kind = OperandKind::window_index, .spatial = true, .plane_rank = 3};

/// One fact about the named operands of the named operators.
struct Group {
  std::string_view ops;       ///< names, separated by blanks
  std::string_view operands;  ///< likewise; "*" stands for all that no group of the op names
  OperandFact fact;
  std::optional<OperandFact> others = std::nullopt;  ///< a fact about all other operands
};

// An output is listed by its position, and by its name where the op's schema has one.
constexpr Group groups[] = {
    // Convolutions and norms. What is exact of them are parameters and statistics.
    {"_batch_norm_no_update _batch_norm_with_update _native_batch_norm_legit "
     "_native_batch_norm_legit_no_training cudnn_batch_norm miopen_batch_norm native_batch_norm "
     "native_group_norm",
     "input", spatial, exact},
    {"_convolution _nnpack_spatial_convolution convolution convolution_overrideable", "input",
     spatial_for_others, exact},
    {"_conv_depthwise2d _slow_conv2d_forward conv_depthwise3d cudnn_convolution "
     "cudnn_convolution_transpose miopen_convolution miopen_convolution_transpose "
     "miopen_depthwise_convolution slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d "
     "slow_conv_transpose2d slow_conv_transpose3d",
     "self", spatial_for_others, exact},
    {"convolution_backward convolution_backward_overrideable cudnn_batch_norm_backward "
     "miopen_batch_norm_backward",
     "grad_output input", spatial, exact},
    {"batch_norm_backward native_batch_norm_backward", "grad_out input", spatial, exact},
    {"_slow_conv2d_backward", "grad_output self", spatial, exact},
    {"_fused_rms_norm native_layer_norm", "input", rows, exact},
    {"native_layer_norm_backward", "grad_out input", rows, exact},
    {"conv_tbc", "self", rows_for_others, exact},
    {"_weight_norm_interface", "*", exact},

    // Matrix products. mat1 and mat2 of addmm are a linear layer's input and its transposed weight;
    // the weight is a parameter's view, which the hooks never take.
    {"linear", "input", rows_for_others, exact},
    {"linear_backward", "grad_output self", rows, exact},
    {"addmm", "mat1 mat2", rows_for_others},
    {"_grouped_mm bmm mm", "mat2 self", rows_for_others},
    {"addbmm baddbmm", "batch1 batch2", rows_for_others},
    {"matmul", "other self", rows_for_others},
    {"mv", "self vec", factor_for_others},
    {"addmv", "mat vec", factor_for_others},
    {"addr", "vec1 vec2", factor_for_others},
    {"dot", "self tensor", factor_for_others},
    {"_trilinear", "i1 i2 i3", factor},

    // Attention. Log-sum-exp is compared with: exp(q.k - lse).
    {"_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention "
     "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_fused_attention_overrideable",
     "key query value", heads},
    {"_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention "
     "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_fused_attention_overrideable",
     "output result0", rows, exact},
    {"_cudnn_attention_forward _efficient_attention_forward _flash_attention_forward",
     "key output query result0 value", rows, exact},
    {"_safe_softmax _softmax", "result", factor, exact},
    {"_softmax_backward_data", "grad_output output", factor},
    {"_masked_softmax logsumexp logcumsumexp logaddexp logaddexp2", "*", exact},
    {"_log_softmax", "result", exact_unless_named, exact},
    {"_log_softmax_backward_data", "grad_output", factor, exact},

    // Recurrent layers: gates and states are read in products, gates of a fused cell through smooth
    // functions. result3 of oneDNN's layer holds both, where its bytes are floats. How cuDNN and
    // MIOpen read their reserve and outputs is not published; weights' gradients are linear in
    // input.
    {"mkldnn_rnn_layer", "input result0 result3", factor, exact},
    {"_cudnn_rnn miopen_rnn", "input", factor, exact},
    {"_thnn_fused_lstm_cell", "cx hidden_gates input_gates result1 result2", factor, exact},
    {"_thnn_fused_gru_cell", "hidden_gates hx input_gates result1", factor, exact},

    // Activation functions. The in-place variant of LeakyReLU reads its result, whose sign is the
    // input's: PyTorch refuses negative slopes there. PReLU's gradient of the input depends on the
    // sign alone, that of the weight on values below 0. ELU's slope jumps at 0 in double backward.
    {"relu", "result", sign},
    {"leaky_relu", "result self", sign},
    {"leaky_relu_backward", "self", sign},
    {"rrelu_with_noise", "result self", sign, exact},
    {"rrelu_with_noise_backward rrelu_with_noise_functional", "self", sign, exact},
    {"_prelu_kernel", "self", signed_rows, exact},
    {"_prelu_kernel_backward", "grad_output", factor, exact},
    {"hardtanh", "self", open_interval},
    {"hardsigmoid", "self", interval_3},
    {"celu elu", "result self", rows},
    {"elu_backward", "grad_output", factor},
    {"elu_backward", "self_or_result", signed_factor},
    {"gelu glu hardswish mish silu softplus", "self", rows},
    {"gelu_backward glu_backward softplus_backward", "grad_output self", factor},
    {"hardswish_backward", "grad_output", factor, exact},
    {"sigmoid tanh", "result", rows},
    {"sigmoid_backward tanh_backward", "grad_output output", factor},
    {"log_sigmoid_forward", "self", factor, exact},
    {"log_sigmoid_backward", "grad_output self", factor, exact},

    // Products, and smooth functions that are read through their results or through a bounded
    // slope.
    {"linalg_cross mul vdot", "other self", factor_for_others},
    {"addcmul", "tensor1 tensor2", factor},
    {"lerp", "end self weight", factor},
    {"exp exp2 expm1 ldexp", "result", factor},
    {"erf erfc nan_to_num nansum var", "self", factor},
    {"asinh atan", "self", factor_with_poles},
    {"pow", "self", base},
    {"pow", "result", factor, exact},
    {"_embedding_bag", "per_sample_weights", factor, exact},
    {"_grid_sampler_2d_cpu_fallback grid_sampler_2d grid_sampler_3d", "input", factor, exact},
    {"cudnn_grid_sampler", "self", factor, exact},
    {"std std_mean var_mean", "self", factor, exact},
    {"dist", "other self", normed, exact},
    {"linalg_vector_norm norm", "self", normed, exact},
    // Their slope is bounded, or grows as fast as they do.
    {"cos cosh i0 sin sinc sinh", "self", angle},
    {"ldexp", "other", angle},

    // Losses.
    {"huber_loss mse_loss smooth_l1_loss soft_margin_loss", "self target", factor},
    {"mse_loss_backward soft_margin_loss_backward", "grad_output self target", factor},
    {"huber_loss_backward smooth_l1_loss_backward", "grad_output", factor, exact},
    {"binary_cross_entropy_with_logits", "pos_weight self target weight", factor},
    // The error of a target is divided by self * (1 - self).
    {"binary_cross_entropy", "weight", factor, exact},
    {"binary_cross_entropy_backward", "grad_output weight", factor, exact},
    {"binary_cross_entropy binary_cross_entropy_backward", "target", exact_mask},
    {"_ctc_loss _cudnn_ctc_loss embedding miopen_ctc_loss multi_margin_loss "
     "multilabel_margin_loss_forward nll_loss2d_backward nll_loss_backward",
     "*", exact},

    // Of these only sizes are read. Under autocast the negative log-likelihood saves a float32 copy
    // of all log-probabilities.
    {"nll_loss2d_forward nll_loss_forward", "self", unread, exact},
    {"_adaptive_avg_pool2d _adaptive_avg_pool3d _fft_r2c avg_pool2d avg_pool3d cummax cummin "
     "fractional_max_pool2d fractional_max_pool3d gather masked_select reflection_pad1d "
     "reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d take",
     "self", unread},
    {"adaptive_max_pool2d adaptive_max_pool3d max_pool2d_with_indices max_pool3d_with_indices",
     "self", unread},
    {"adaptive_max_pool2d max_pool2d_with_indices", "result1", window_2d},
    {"adaptive_max_pool3d max_pool3d_with_indices", "result1", window_3d},
    {"index_add index_copy put", "source", unread},
    {"native_dropout_backward", "grad_output", unread},
    // The formulas call at::real(grad) and at::imag(grad): PyTorch saves operands of these names.
    {"complex", "imag real", unread},
    {"index_reduce scatter_reduce", "index", exact, reduced},
    {"segment_reduce", "data result", reduced},

    // Compared with each other, or with the result.
    {"maximum minimum", "other self", compared_with_other},
    {"amax amin max min", "result self", compared_with_other, exact},

    // Compared with numbers. Of bounds that are tensors nothing is known.
    {"clamp", "self", closed_interval, exact},
    {"clamp_min", "self", at_least, exact},
    {"clamp_max", "self", at_most, exact},
    {"threshold", "self", above},
    {"hardshrink softshrink", "self", around_0},

    // Compared with something, or picked by size: equal values have to stay equal.
    {"abs angle hardshrink_backward hardtanh_backward softshrink_backward threshold_backward",
     "self", exact},
    {"copysign fmax fmin max_pool2d median nanmedian renorm sgn", "*", exact},
    {"_fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine", "*",
     exact},

    // Divided by. Of reciprocal and rsqrt powers of the results are read, and few large results
    // would set the error of all others.
    {"div", "self", factor},
    {"div", "other", exact},
    {"addcdiv", "tensor1", factor},
    {"addcdiv", "tensor2", exact},
    {"_cdist_forward _euclidean_dist _pdist_forward atan2 cumprod fmod hypot polar prod reciprocal "
     "remainder rsqrt sqrt",
     "*", exact},

    // Functions with poles near their values, or whose gradient is a small difference of large
    // numbers.
    {"acos acosh asin atanh digamma erfinv lgamma log log10 log1p log2 logit mvlgamma polygamma "
     "special_entr",
     "self", exact},
    {"special_ndtri tan", "result", exact},
    {"_standard_gamma igamma igammac special_erfcx special_i0e special_i1 special_i1e "
     "special_log_ndtr special_xlog1py special_zeta xlogy",
     "*", exact},
    {"frexp", "result1", exact},  // whole numbers

    // Of a solver's operands gradients are linear in the solution. What the matrix's factors and
    // inverses are multiplied with is large where the matrix is close to a singular one.
    {"_linalg_solve_ex linalg_lu_solve linalg_solve_triangular", "result", factor, exact},
    {"cholesky_solve", "result", factor, exact},
    {"cholesky_solve triangular_solve", "self", unread},
    {"triangular_solve", "result0", factor, exact},
    {"_linalg_det _linalg_eigh _linalg_slogdet _linalg_svd cholesky cholesky_inverse "
     "linalg_cholesky_ex linalg_eig linalg_householder_product linalg_inv_ex linalg_lstsq "
     "linalg_lu linalg_lu_factor_ex linalg_matrix_exp linalg_pinv linalg_qr ormqr",
     "*", exact},

    // What the hooks cannot name (lists of tensors) or do not take (sparse and nested tensors,
    // oneDNN's opaque ones), and what runs on Apple's devices only.
    {"_foreach_div _foreach_maximum _foreach_minimum _foreach_norm _foreach_pow", "*", exact},
    {"_sparse_addmm _sparse_coo_tensor_with_dims_and_tensors _sparse_log_softmax "
     "_sparse_mm_reduce_impl _sparse_softmax _sparse_sparse_matmul _sparse_sum _to_dense "
     "sparse_compressed_tensor sparse_sampled_addmm values values_copy",
     "*", exact},
    {"_nested_from_padded _nested_get_values _nested_get_values_copy "
     "_nested_tensor_from_tensor_list to_padded_tensor",
     "*", exact},
    {"mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear mkldnn_max_pool2d "
     "mkldnn_max_pool3d to_mkldnn",
     "*", exact},
    {"_lstm_mps _mps_convolution _mps_convolution_transpose mps_convolution_backward", "*", exact},
    {"_test_autograd_multiple_dispatch_view _test_autograd_multiple_dispatch_view_copy", "*",
     exact},
};

struct Row {
  std::string_view op;
  std::string_view operand;
  OperandFact fact;

  constexpr bool is_wildcard() const noexcept { return operand == "*"; }
};

/// Calls `take` with each word of `text`.
template <typename Take>
constexpr void for_each_word(std::string_view text, Take take) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    take(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
}

/// Calls `take` with each row of `groups`.
template <typename Take>
constexpr void for_each_row(Take take) {
  for (const Group& group : groups) {
    for_each_word(group.ops, [&](std::string_view op) {
      for_each_word(group.operands, [&](std::string_view operand) {
        take(Row{op, operand, group.fact});
      });
      if (group.others) take(Row{op, "*", *group.others});
    });
  }
}

constexpr std::size_t row_count = [] {
  std::size_t count = 0;
  for_each_row([&count](const Row&) { ++count; });
  return count;
}();

/// Order of rows: by operator, wildcards last.
constexpr bool precedes(const Row& a, const Row& b) noexcept {
  if (a.op != b.op) return a.op < b.op;
  if (a.is_wildcard() != b.is_wildcard()) return b.is_wildcard();
  return a.operand < b.operand;
}

constexpr auto facts = [] {
  std::array<Row, row_count> sorted;
  std::size_t next = 0;
  for_each_row([&](const Row& row) { sorted[next++] = row; });
  std::ranges::sort(sorted, precedes);
  return sorted;
}();
static_assert(std::ranges::adjacent_find(facts, std::not_fn(precedes)) == facts.end(),
              "no operand has two facts");

}  // namespace

OperandFact operand_fact(std::string_view op, std::string_view operand) noexcept {
  constexpr std::string_view ours = "aten::";
  if (!op.starts_with(ours)) return {};
  const std::string_view name = functional_name(op).substr(ours.size());
  for (auto row = std::ranges::lower_bound(facts, name, {}, &Row::op);
       row != facts.end() && row->op == name; ++row) {
    if (row->operand == operand || row->is_wildcard()) return row->fact;
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
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto [a, b] = use.numbers;
  const auto or_none = [](float bound, float none) { return std::isnan(bound) ? none : bound; };
  const auto rounded = [&use](float bound) {
    if (!codecs::is_quantizable(use.type) || !std::isfinite(bound)) return bound;
    return codecs::value_of(use.type, codecs::bits_of(use.type, bound));
  };
  // One of clamp's bounds. It is left out by ending the interval at its neighbour in float32.
  const auto end = [&](float bound, float inside) {
    return use.clamp_leaves_out_ends ? std::nextafter(rounded(bound), inside) : rounded(bound);
  };
  codecs::IntervalBounds bounds = {0, 0};
  switch (fact.interval) {
    case Interval::none:
      return std::nullopt;
    case Interval::between_3:
      return codecs::IntervalBounds{-3, 3};
    case Interval::open:
      bounds = {a, b};
      break;
    case Interval::closed:
      if (std::isnan(a) && std::isnan(b)) return std::nullopt;
      bounds = {or_none(end(a, infinity), -infinity), or_none(end(b, -infinity), infinity), true};
      break;
    case Interval::at_least:
      bounds = {end(a, infinity), infinity, true};
      break;
    case Interval::at_most:
      bounds = {-infinity, end(a, -infinity), true};
      break;
    case Interval::above:
      if (rounded(a) != a) return std::nullopt;
      bounds = {std::nextafter(a, infinity), infinity, true};
      break;
    case Interval::closed_around_0:
      if (rounded(a) != a) return std::nullopt;
      bounds = {-a, a, true};
      break;
  }
  return bounds.is_interval() ? std::optional(bounds) : std::nullopt;
}

namespace {

OperandKind kind_by_arguments(const OperandFact& fact, const Use& use) noexcept {
  if (fact.kind == OperandKind::reduced) return OperandKind::unknown;
  if (fact.kind == OperandKind::compared) return OperandKind::exact;
  if (fact.has_poles && use.is_complex) return OperandKind::unknown;
  if (fact.kind == OperandKind::normed) {
    const bool is_smooth = use.exponent >= 2 && std::isfinite(use.exponent);
    return is_smooth ? OperandKind::factor : OperandKind::unknown;
  }
  if (fact.kind != OperandKind::base) return fact.kind;
  // A fractional power of a value that an approximation made negative is NaN.
  const bool is_polynomial = use.exponent >= 1 && use.exponent == std::trunc(use.exponent);
  return is_polynomial ? OperandKind::factor : OperandKind::unknown;
}

}  // namespace

OperandKind kind_of(const OperandFact& fact, const Use& use) noexcept {
  using enum OperandKind;
  const OperandKind kind = kind_by_arguments(fact, use);
  const bool is_approximated = kind == activation || kind == factor || kind == angle;
  return use.is_magnified && is_approximated && fact.reads == Reads::values ? exact : kind;
}

Reads reads_of(const OperandFact& fact, const Use& use) noexcept {
  const bool is_compared = fact.kind == OperandKind::compared || fact.kind == OperandKind::reduced;
  if (is_compared && use.is_comparison_held) return Reads::nothing;
  if (fact.kind == OperandKind::reduced && use.is_linear_reduction) return Reads::nothing;
  const bool is_unknown_interval = fact.reads == Reads::interval && !interval_of(fact, use);
  return is_unknown_interval ? Reads::values : fact.reads;
}

}  // namespace cinch::policy
