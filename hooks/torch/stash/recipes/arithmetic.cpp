// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/arithmetic.h"

#include <cstddef>
#include <optional>

#include <ATen/ops/add.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_dropout_backward.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>

namespace cinch::hooks {
namespace {

/// A factor that the program gave; 0 stands for none.
std::optional<double> factor(double scalar) {
  return scalar == 0 ? std::nullopt : std::optional(scalar);
}

void average(const Recipe::Step& step, const at::Tensor& in, at::Tensor& out) {
  const auto& w = step.window;
  const auto divisor = step.divisor == 0 ? std::nullopt : std::optional(step.divisor);
  at::avg_pool2d_out(out, in, {w[0], w[1]}, {w[2], w[3]}, {w[4], w[5]}, step.ceil_mode,
                     step.count_include_pad, divisor);
}

void upsample(const Recipe::Step& step, const at::Tensor& in, at::Tensor& out) {
  const auto height = factor(step.scalars[0]);
  const auto width = factor(step.scalars[1]);
  const c10::IntArrayRef size = out.sizes().slice(2);
  if (step.op == Recipe::Operator::upsample_nearest) {
    at::upsample_nearest2d_out(out, in, size, height, width);
  } else {
    at::upsample_bilinear2d_out(out, in, size, step.align_corners, height, width);
  }
}

// An index on a device may count from the end, which index_select() does not take.
void gather(const Recipe::Step& step, const at::Tensor& in, const at::Tensor& out) {
  c10::DimVector sizes(in.sizes());
  sizes[static_cast<std::size_t>(step.dim)] = step.index.numel();
  at::Tensor to = out.view(sizes);
  if (in.is_cpu()) {
    at::index_select_out(to, in, step.dim, step.index);
    return;
  }
  c10::List<std::optional<at::Tensor>> indices;
  indices.resize(static_cast<std::size_t>(step.dim));
  indices.push_back(step.index);
  at::index_out(to, in, indices);
}

}  // namespace

void Arithmetic::copy(const at::Tensor& from, at::Tensor& to) {
  to.copy_(from, /*non_blocking=*/true);
}

codecs::Smooth Arithmetic::function_of(const Recipe::Step& step) noexcept {
  if (step.op == Recipe::Operator::silu) return codecs::Smooth::silu;
  return step.tanh ? codecs::Smooth::gelu_tanh : codecs::Smooth::gelu;
}

at::Tensor Arithmetic::slice_of(const at::Tensor& tensor, std::int64_t dim, std::int64_t first,
                                std::int64_t count) const {
  const View part = slice(layout_of(tensor), dim, first, 1, count).value();
  const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
  return blob(data + static_cast<std::size_t>(part.offset) * tensor.element_size(), part.layout,
              tensor.scalar_type());
}

void Arithmetic::roll(const Recipe::Step& step, std::size_t dim, const at::Tensor& in,
                      at::Tensor& out) const {
  if (dim == step.shifts.size()) {
    copy(in, out);
    return;
  }
  const auto along = static_cast<std::int64_t>(dim);
  const std::int64_t size = in.size(along);
  const std::int64_t shift = step.shifts[dim];
  for (const auto& [from, to, count] : {std::array{std::int64_t{0}, shift, size - shift},
                                        std::array{size - shift, std::int64_t{0}, shift}}) {
    if (count == 0) continue;
    at::Tensor target = slice_of(out, along, to, count);
    roll(step, dim + 1, slice_of(in, along, from, count), target);
  }
}

bool Arithmetic::apply(const Recipe::Step& step, const at::Tensor& in, const Others& others,
                       at::Tensor& out) const {
  const auto& [a, b, c] = step.scalars;
  const at::Tensor& left = step.reversed ? others[0] : in;
  const at::Tensor& right = step.reversed ? in : others[0];
  switch (step.op) {
    case Recipe::Operator::gelu:
      at::gelu_out(out, in, step.tanh ? "tanh" : "none");
      return true;
    case Recipe::Operator::silu:
      at::silu_out(out, in);
      return true;
    case Recipe::Operator::leaky_relu:
      at::leaky_relu_out(out, in, a);
      return true;
    case Recipe::Operator::elu:
      at::elu_out(out, in, a, b, c);
      return true;
    case Recipe::Operator::hardswish:
      at::hardswish_out(out, in);
      return true;
    case Recipe::Operator::hardtanh:
      at::clamp_out(out, in, a, b);
      return true;
    case Recipe::Operator::hardsigmoid:
      at::hardsigmoid_out(out, in);
      return true;
    case Recipe::Operator::mish:
      at::mish_out(out, in);
      return true;
    case Recipe::Operator::softplus:
      at::softplus_out(out, in, a, b);
      return true;
    case Recipe::Operator::sigmoid:
      at::sigmoid_out(out, in);
      return true;
    case Recipe::Operator::tanh:
      at::tanh_out(out, in);
      return true;
    case Recipe::Operator::pow:
      at::pow_out(out, in, a);
      return true;
    case Recipe::Operator::sin:
      at::sin_out(out, in);
      return true;
    case Recipe::Operator::cos:
      at::cos_out(out, in);
      return true;
    case Recipe::Operator::exp:
      at::exp_out(out, in);
      return true;
    case Recipe::Operator::sigmoid_backward:
      at::sigmoid_backward_out(out, left, right);
      return true;
    case Recipe::Operator::tanh_backward:
      at::tanh_backward_out(out, left, right);
      return true;
    case Recipe::Operator::add:
      at::add_out(out, left, right, 1);
      return true;
    case Recipe::Operator::sub:
      at::sub_out(out, left, right, 1);
      return true;
    case Recipe::Operator::mul:
      at::mul_out(out, left, right);
      return true;
    case Recipe::Operator::div:
      at::div_out(out, left, right);
      return true;
    case Recipe::Operator::copy:
      copy(in, out);
      return true;
    case Recipe::Operator::avg_pool:
      average(step, in, out);
      return true;
    case Recipe::Operator::roll:
      roll(step, 0, in, out);
      return true;
    case Recipe::Operator::gather:
      gather(step, in, out);
      return true;
    case Recipe::Operator::upsample_nearest:
    case Recipe::Operator::upsample_bilinear:
      upsample(step, in, out);
      return true;
    case Recipe::Operator::dropout:
      copy(at::native_dropout_backward(in, others[0], a), out);
      return true;
    default:  // attention, and those that computes_in_floats() names
      return false;
  }
}

}  // namespace cinch::hooks
