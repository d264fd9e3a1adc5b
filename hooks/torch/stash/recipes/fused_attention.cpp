// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/fused_attention.h"

#include <optional>

#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>

namespace cinch::hooks {
namespace {

at::Tensor output(const Recipe::Step& step, const at::Tensor& query,
                  const Arithmetic::Others& others) {
  constexpr double no_dropout = 0;
  // The kernels that also write the log-sum-exp, as in the forward.
  constexpr bool log_sum_exp = true;
  const auto& [key, value, summands] = others;
  const auto mask = summands.defined() ? std::optional(summands) : std::nullopt;
  const double factor = step.scalars[0];
  const auto scale = factor == 0 ? std::nullopt : std::optional(factor);
  switch (step.op) {
    case Recipe::Operator::flash_attention:
      return std::get<0>(at::_scaled_dot_product_flash_attention(
          query, key, value, no_dropout, step.causal, /*return_debug_mask=*/false, scale));
    case Recipe::Operator::efficient_attention:
      return std::get<0>(at::_scaled_dot_product_efficient_attention(
          query, key, value, mask, log_sum_exp, no_dropout, step.causal, scale));
    case Recipe::Operator::cudnn_attention:
      return std::get<0>(at::_scaled_dot_product_cudnn_attention(
          query, key, value, mask, log_sum_exp, no_dropout, step.causal,
          /*return_debug_mask=*/false, scale));
    default:
      return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
          query, key, value, no_dropout, step.causal, mask, scale));
  }
}

}  // namespace

void fused_attention(const Recipe::Step& step, const at::Tensor& query,
                     const Arithmetic::Others& others, at::Tensor& out) {
  Arithmetic::copy(output(step, query, others), out);
}

}  // namespace cinch::hooks
