// SPDX-License-Identifier: Apache-2.0
//
// CUDA's other fused kernels.
#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include "substitutes.h"

namespace fakecuda::executor {
namespace {

using Stack = std::vector<at::IValue>;

/// The noise by which the CPU's dropout multiplies, rounded as on the CPU: 1 / (1 - p), not its
/// product with 1.
at::Tensor noise_of(const at::Tensor& mask, const at::Tensor& like, double kept) {
  at::Tensor noise = mask.to(like.scalar_type());
  return kept == 0 ? noise : noise.div_(kept);
}

}  // namespace

// input, p, train -> output, mask. The CPU has a kernel too, but its dropout uses other operators;
// this draws and rounds as they do.
void dropout(Stack& s) {
  const at::Tensor input = s[0].toTensor();
  const double kept = 1 - s[1].toDouble();
  if (!s[2].isNone() && !s[2].toBool()) {
    s = {input.clone(), at::empty_like(input, input.options().dtype(at::kBool)).fill_(true)};
    return;
  }
  const at::Tensor mask = at::empty_like(input).bernoulli_(kept).to(at::kBool);
  s = {input * noise_of(mask, input, kept), mask};
}

// grad_output, mask, scale -> grad_input
void dropout_backward(Stack& s) {
  const at::Tensor grad = s[0].toTensor();
  const double scale = s[2].toDouble();
  s = {grad * noise_of(s[1].toTensor(), grad, scale == 0 ? 0 : 1 / scale)};
}

// grad_out, input, normalized_shape, rstd, weight, output_mask -> grad_input, grad_weight
void rms_norm_backward(Stack& s) {
  const at::Tensor grad = s[0].toTensor().to(at::kFloat);
  const at::Tensor input = s[1].toTensor();
  const at::Tensor normal = input.to(at::kFloat) * s[3].toTensor();
  const auto dims = static_cast<std::int64_t>(s[2].toListRef().size());
  std::vector<std::int64_t> inner, outer;
  for (std::int64_t d = 0; d < input.dim(); ++d) {
    (d < input.dim() - dims ? outer : inner).push_back(d);
  }
  const bool weighted = !s[4].isNone() && s[4].toTensor().defined();
  const at::Tensor scaled = weighted ? grad * s[4].toTensor() : grad;
  const at::Tensor mean = (scaled * normal).mean(inner, /*keepdim=*/true);
  at::Tensor grad_input = ((scaled - normal * mean) * s[3].toTensor()).to(input.scalar_type());
  at::Tensor grad_weight;
  if (weighted) {
    grad_weight = outer.empty() ? grad * normal : (grad * normal).sum(outer);
    grad_weight = grad_weight.to(s[4].toTensor().scalar_type());
  }
  s = {grad_input, grad_weight};
}

// input, weight, bias, mean, invstd, eps, out -> out. Rounds as the CPU's batch norm does: what it
// computes is fma(input, factor, fma(-mean, factor, bias)) with factor = invstd * weight.
void batch_norm_elementwise(Stack& s) {
  const at::Tensor input = s[0].toTensor().to(at::kFloat).contiguous();
  const auto channel = [&](std::size_t i) {
    return s[i].isNone() || !s[i].toTensor().defined()
               ? at::Tensor()
               : s[i].toTensor().to(at::kFloat).contiguous();
  };
  const at::Tensor weight = channel(1), bias = channel(2), mean = channel(3), invstd = channel(4);
  const at::Tensor result = at::empty_like(input);
  const auto of = [](const at::Tensor& tensor, std::int64_t c, float otherwise) {
    return tensor.defined() ? tensor.const_data_ptr<float>()[c] : otherwise;
  };
  const std::int64_t channels = input.size(1);
  const std::int64_t inner = input.numel() / std::max<std::int64_t>(1, input.size(0) * channels);
  const float* x = input.const_data_ptr<float>();
  float* y = result.data_ptr<float>();
  for (std::int64_t plane = 0; plane < input.size(0) * channels; ++plane) {
    const std::int64_t c = plane % channels;
    const float factor = of(invstd, c, 1) * of(weight, c, 1);
    const float summand = std::fma(-of(mean, c, 0), factor, of(bias, c, 0));
    for (std::int64_t i = 0; i < inner; ++i, ++x, ++y) *y = std::fma(*x, factor, summand);
  }
  const at::Tensor out = s[6].toTensor();
  out.copy_(result);
  s = {out};
}

}  // namespace fakecuda::executor
