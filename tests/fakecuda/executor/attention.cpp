// SPDX-License-Identifier: Apache-2.0
//
// CUDA's fused attention, computed by the CPU's: saves the same tensors (query, key, value, output,
// log-sum-exp) with the CPU's numbers.
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/zeros.h>

#include "substitutes.h"

namespace fakecuda::executor {
namespace {

using Stack = std::vector<at::IValue>;

std::optional<at::Tensor> optional_tensor(const at::IValue& value) {
  if (value.isNone() || !value.toTensor().defined()) return std::nullopt;
  return value.toTensor();
}

at::Tensor random_state() {
  return at::zeros({2}, at::kLong);
}

std::int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& mask, double dropout, bool causal,
                    std::optional<double> scale, bool grouped) {
  const auto cpu = static_cast<sdp::SDPBackend>(
      at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), query,
                                              key, value, mask, dropout, causal, scale, grouped));
  if (cpu != sdp::SDPBackend::flash_attention) return static_cast<std::int64_t>(cpu);
  // CUDA's flash attention has no mask, and needs head sizes that are multiples of 8.
  const bool efficient = mask.has_value() || query.size(-1) % 8 != 0;
  return static_cast<std::int64_t>(efficient ? sdp::SDPBackend::efficient_attention
                                             : sdp::SDPBackend::flash_attention);
}

}  // namespace

void choose_attention() {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(choose);
}

// query, key, value, dropout_p, is_causal, return_debug_mask, scale
void flash_attention(Stack& s) {
  const at::Tensor query = s[0].toTensor();
  const at::Tensor key = s[1].toTensor();
  auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, s[2].toTensor(), s[3].toDouble(), s[4].toBool(), std::nullopt,
      s[6].toOptional<double>());
  s = {output,      logsumexp,      at::Tensor(),   at::Tensor(), query.size(2),
       key.size(2), random_state(), random_state(), at::Tensor()};
}

// grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
// is_causal, philox_seed, philox_offset, scale
void flash_attention_backward(Stack& s) {
  auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toTensor(), s[4].toTensor(),
      s[5].toTensor(), s[10].toDouble(), s[11].toBool(), std::nullopt, s[14].toOptional<double>());
  s = {query, key, value};
}

// query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale
void efficient_attention(Stack& s) {
  auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[5].toDouble(), s[6].toBool(),
      optional_tensor(s[3]), s[7].toOptional<double>());
  s = {output, logsumexp, random_state(), random_state()};
}

// grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
// grad_input_mask, is_causal, scale
void efficient_attention_backward(Stack& s) {
  auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toTensor(), s[5].toTensor(),
      s[6].toTensor(), s[9].toDouble(), s[11].toBool(), optional_tensor(s[4]),
      s[12].toOptional<double>());
  s = {query, key, value, at::Tensor()};
}

// query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask, scale
void cudnn_attention(Stack& s) {
  const at::Tensor query = s[0].toTensor();
  const at::Tensor key = s[1].toTensor();
  auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, s[2].toTensor(), s[5].toDouble(), s[6].toBool(), optional_tensor(s[3]),
      s[8].toOptional<double>());
  s = {output,      logsumexp,      at::Tensor(),   at::Tensor(), query.size(2),
       key.size(2), random_state(), random_state(), at::Tensor()};
}

// grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q,
// cum_seq_k, max_q, max_k, dropout_p, is_causal, scale
void cudnn_attention_backward(Stack& s) {
  auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toTensor(), s[4].toTensor(),
      s[5].toTensor(), s[13].toDouble(), s[14].toBool(), optional_tensor(s[8]),
      s[15].toOptional<double>());
  s = {query, key, value};
}

}  // namespace fakecuda::executor
