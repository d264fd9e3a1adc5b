// SPDX-License-Identifier: Apache-2.0
//
// CUDA's fused LSTM and GRU cells, computed from the single operators that the CPU uses. The
// backwards compute what autograd derives from these.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros_like.h>

#include "substitutes.h"

namespace fakecuda::executor {
namespace {

using Stack = std::vector<at::IValue>;

at::Tensor with_bias(const at::Tensor& gates, const at::IValue& bias) {
  if (bias.isNone() || !bias.toTensor().defined()) return gates;
  return gates + bias.toTensor();
}

}  // namespace

// input_gates, hidden_gates, cx, input_bias, hidden_bias -> hy, cy, workspace (the four gates)
void lstm_cell(Stack& s) {
  const at::Tensor gates = with_bias(s[1].toTensor(), s[4]) + with_bias(s[0].toTensor(), s[3]);
  const std::vector<at::Tensor> part = gates.chunk(4, 1);
  const at::Tensor input = part[0].sigmoid();
  const at::Tensor forget = part[1].sigmoid();
  const at::Tensor cell = part[2].tanh();
  const at::Tensor output = part[3].sigmoid();
  const at::Tensor cy = (forget * s[2].toTensor()).add_(input * cell);
  const at::Tensor hy = output * cy.tanh();
  s = {hy, cy, at::cat({input, forget, cell, output}, 1)};
}

// grad_hy, grad_cy, cx, cy, workspace, has_bias -> grad_gates, grad_cx, grad_bias
void lstm_cell_backward(Stack& s) {
  const at::Tensor cx = s[2].toTensor();
  const at::Tensor cy = s[3].toTensor();
  const std::vector<at::Tensor> part = s[4].toTensor().chunk(4, 1);
  const auto given = [](const at::IValue& v) { return !v.isNone() && v.toTensor().defined(); };
  const at::Tensor grad_hy = given(s[0]) ? s[0].toTensor() : at::zeros_like(cy);
  const at::Tensor tanh_cy = cy.tanh();
  at::Tensor grad_cy = at::tanh_backward(grad_hy * part[3], tanh_cy);
  if (given(s[1])) grad_cy = s[1].toTensor() + grad_cy;
  const at::Tensor gates = at::cat(
      {at::sigmoid_backward(grad_cy * part[2], part[0]),
       at::sigmoid_backward(grad_cy * cx, part[1]), at::tanh_backward(grad_cy * part[0], part[2]),
       at::sigmoid_backward(grad_hy * tanh_cy, part[3])},
      1);
  const bool has_bias = s[5].toBool();
  s = {gates, grad_cy * part[1], has_bias ? gates.sum(0) : at::Tensor()};
}

// input_gates, hidden_gates, hx, input_bias, hidden_bias -> hy, workspace (reset, update, new,
// hx, the hidden part of new)
void gru_cell(Stack& s) {
  const std::vector<at::Tensor> input = with_bias(s[0].toTensor(), s[3]).chunk(3, 1);
  const std::vector<at::Tensor> hidden = with_bias(s[1].toTensor(), s[4]).chunk(3, 1);
  const at::Tensor hx = s[2].toTensor();
  const at::Tensor reset = (hidden[0] + input[0]).sigmoid();
  const at::Tensor update = (hidden[1] + input[1]).sigmoid();
  const at::Tensor fresh = (input[2] + hidden[2] * reset).tanh();
  s = {(hx - fresh).mul_(update).add_(fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

// grad_hy, workspace, has_bias -> grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias,
// grad_hidden_bias
void gru_cell_backward(Stack& s) {
  const at::Tensor grad = s[0].toTensor();
  const std::vector<at::Tensor> part = s[1].toTensor().chunk(5, 1);
  const at::Tensor& reset = part[0];
  const at::Tensor& update = part[1];
  const at::Tensor& fresh = part[2];
  const at::Tensor grad_hx = grad * update;
  const at::Tensor grad_new = at::tanh_backward(grad - grad_hx, fresh);
  const at::Tensor grad_update = at::sigmoid_backward(grad * (part[3] - fresh), update);
  const at::Tensor grad_reset = at::sigmoid_backward(grad_new * part[4], reset);
  const at::Tensor input = at::cat({grad_reset, grad_update, grad_new}, 1);
  const at::Tensor hidden = at::cat({grad_reset, grad_update, grad_new * reset}, 1);
  const bool has_bias = s[2].toBool();
  s = {input, hidden, grad_hx, has_bias ? input.sum(0) : at::Tensor(),
       has_bias ? hidden.sum(0) : at::Tensor()};
}

}  // namespace fakecuda::executor
