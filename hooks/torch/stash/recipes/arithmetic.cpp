// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/arithmetic.h"

#include <cstddef>
#include <optional>

#include <ATen/ops/_prelu_kernel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/div.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_dropout_backward.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>

namespace cinch::hooks {
namespace {

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
  const at::Tensor& left = step.reversed ? others[0] : in;
  const at::Tensor& right = step.reversed ? in : others[0];
  const double alpha = step.numbers.empty() ? 1 : step.numbers[0];
  switch (step.op) {
    case Recipe::Operator::gelu:
      at::gelu_out(out, in, step.tanh ? "tanh" : "none");
      return true;
    case Recipe::Operator::silu:
      at::silu_out(out, in);
      return true;
    case Recipe::Operator::tanh:
      at::tanh_out(out, in);
      return true;
    case Recipe::Operator::pow:
      at::pow_out(out, in, step.numbers[0]);
      return true;
    case Recipe::Operator::function:
      step.call(step, in, out);
      return true;
    case Recipe::Operator::sigmoid_backward:
      at::sigmoid_backward_out(out, left, right);
      return true;
    case Recipe::Operator::tanh_backward:
      at::tanh_backward_out(out, left, right);
      return true;
    case Recipe::Operator::add:
      at::add_out(out, left, right, alpha);
      return true;
    case Recipe::Operator::sub:
      at::sub_out(out, left, right, alpha);
      return true;
    case Recipe::Operator::mul:
      at::mul_out(out, left, right);
      return true;
    case Recipe::Operator::div:
      at::div_out(out, left, right);
      return true;
    case Recipe::Operator::prelu:
      copy(at::_prelu_kernel(left, right), out);
      return true;
    case Recipe::Operator::addcmul:
      at::addcmul_out(out, in, others[0], others[1], step.numbers[0]);
      return true;
    case Recipe::Operator::copy:
      copy(in, out);
      return true;
    case Recipe::Operator::roll:
      roll(step, 0, in, out);
      return true;
    case Recipe::Operator::gather:
      gather(step, in, out);
      return true;
    case Recipe::Operator::dropout:
      copy(at::native_dropout_backward(in, others[0], step.numbers[0]), out);
      return true;
    default:  // attention, and those that computes_in_floats() names
      return false;
  }
}

}  // namespace cinch::hooks
