// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/fused_attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_cpu_dispatch.h>
#include <ATen/ops/copy_native.h>

namespace cinch::hooks {

void fused_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& mask, bool causal, std::optional<double> scale,
                     at::Tensor& out) {
  std::optional<at::Tensor> summands;
  if (mask.defined()) summands = mask;
  const auto [result, log_sum_exp] = at::cpu::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, 0, causal, summands, scale);
  at::native::copy_(out, result);
}

}  // namespace cinch::hooks
