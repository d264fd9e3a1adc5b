// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// Computes attention with the fused kernel that PyTorch takes on the CPU (FlashAttention,
/// aten/src/ATen/native/cpu/FlashAttentionKernel.cpp), without dropout.
/// @pre BelowProgram
/// @param query [batch, heads, length, head size], as `key` and `value`
/// @param mask Summands of the scores, which broadcast; or undefined
/// @param scale Factor of the scores; nullopt: 1 / sqrt(head size)
/// @param out Of the query's sizes
/// @throws c10::Error when there is no memory for the kernel's own buffers
void fused_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& mask, bool causal, std::optional<double> scale,
                     at::Tensor& out);

}  // namespace cinch::hooks
