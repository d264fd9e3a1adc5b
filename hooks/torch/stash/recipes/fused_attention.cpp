// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/fused_attention.h"

#include <optional>
#include <tuple>
#include <utility>

#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>

namespace cinch::hooks {
namespace {

/// Output and log-sum-exp.
using Both = std::pair<at::Tensor, at::Tensor>;

/// The first two of an operator's results.
template <typename Results>
Both both(Results&& results) {
  return {std::get<0>(std::move(results)), std::get<1>(std::move(results))};
}

Both compute(const Recipe::Step& step, const at::Tensor& query, const Arithmetic::Others& others) {
  constexpr double no_dropout = 0;
  // The kernels that also write the log-sum-exp, as in the forward.
  constexpr bool log_sum_exp = true;
  const auto& [key, value, summands] = others;
  const auto mask = summands.defined() ? std::optional(summands) : std::nullopt;
  const auto scale = step.given(0);
  switch (step.op) {
    case Recipe::Operator::flash_attention:
      return both(at::_scaled_dot_product_flash_attention(
          query, key, value, no_dropout, step.causal, /*return_debug_mask=*/false, scale));
    case Recipe::Operator::efficient_attention:
      return both(at::_scaled_dot_product_efficient_attention(query, key, value, mask, log_sum_exp,
                                                              no_dropout, step.causal, scale));
    case Recipe::Operator::cudnn_attention:
      return both(at::_scaled_dot_product_cudnn_attention(query, key, value, mask, log_sum_exp,
                                                          no_dropout, step.causal,
                                                          /*return_debug_mask=*/false, scale));
    default:
      return both(at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, no_dropout,
                                                                  step.causal, mask, scale));
  }
}

}  // namespace

at::Tensor fused_attention(const Recipe::Step& step, const at::Tensor& query,
                           const Arithmetic::Others& others, at::Tensor& out) {
  auto [wanted, other] = compute(step, query, others);
  if (step.part == AttentionPart::log_sum_exp) std::swap(wanted, other);
  Arithmetic::copy(wanted, out);
  return other;
}

}  // namespace cinch::hooks
