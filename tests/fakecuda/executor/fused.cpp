// SPDX-License-Identifier: Apache-2.0
//
// CUDA's other fused kernels.
#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>

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
  const at::Tensor mask = s[1].toTensor();
  // A scale that was rounded as CUDA's forward rounds it is the noise.
  const bool is_rounded = static_cast<double>(static_cast<float>(scale)) == scale;
  const at::Tensor noise =
      is_rounded ? mask.to(grad.scalar_type()).mul_(scale) : noise_of(mask, grad, 1 / scale);
  s = {grad * noise};
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

// input, weight, bias, running_mean, running_var, training, momentum, epsilon -> output, mean,
// invstd, reserve. Rounds otherwise than PyTorch's batch norm, as cuDNN does.
void cudnn_batch_norm(Stack& s) {
  const auto given = [&](std::size_t i) {
    return s[i].isNone() || !s[i].toTensor().defined() ? std::nullopt
                                                       : std::optional(s[i].toTensor());
  };
  const at::Tensor input = s[0].toTensor();
  const bool trains = s[5].toBool();
  const auto [ignored, mean, invstd] =
      at::native_batch_norm(input, s[1].toTensor(), given(2), given(3), given(4), trains,
                            s[6].toDouble(), s[7].toDouble());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[1] = -1;
  const auto by_channel = [&](const at::Tensor& tensor) {
    return tensor.to(at::kFloat).view(sizes);
  };
  const at::Tensor center = by_channel(trains ? mean : *given(3));
  const at::Tensor scale =
      by_channel(trains ? invstd : at::rsqrt(given(4)->to(at::kFloat) + s[7].toDouble()));
  at::Tensor output = (input.to(at::kFloat) - center) * scale * by_channel(s[1].toTensor());
  if (const auto bias = given(2)) output += by_channel(*bias);
  s = {output.to(input.scalar_type()), mean, invstd,
       at::empty({0}, input.options().dtype(at::kByte))};
}

// input, grad_output, weight, running_mean, running_var, save_mean, save_var, epsilon, reserve ->
// the gradients of input, weight and bias
void cudnn_batch_norm_backward(Stack& s) {
  auto [input, weight, bias] = at::native_batch_norm_backward(
      s[1].toTensor(), s[0].toTensor(), s[2].toTensor(), std::nullopt, std::nullopt,
      s[5].toTensor(), s[6].toTensor(), /*train=*/true, s[7].toDouble(), {true, true, true});
  s = {input, weight, bias};
}

}  // namespace fakecuda::executor
