// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/kernels.h"

#include <cstddef>
#include <cstring>
#include <optional>

#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/avg_pool2d_cpu_dispatch.h>
#include <ATen/ops/clamp_cpu_dispatch.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/elu_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu_cpu_dispatch.h>
#include <ATen/ops/hardsigmoid_cpu_dispatch.h>
#include <ATen/ops/hardswish_native.h>
#include <ATen/ops/leaky_relu_cpu_dispatch.h>
#include <ATen/ops/mish_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/sigmoid_backward_cpu_dispatch.h>
#include <ATen/ops/silu_cpu_dispatch.h>
#include <ATen/ops/softplus_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/tanh_backward_cpu_dispatch.h>
#include <ATen/ops/upsample_bilinear2d_cpu_dispatch.h>
#include <ATen/ops/upsample_nearest2d_cpu_dispatch.h>
#include <c10/core/Allocator.h>

#include "codecs/norms.h"
#include "codecs/pooling.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/fused_attention.h"

namespace cinch::hooks {
namespace {

/// A factor that the program gave; 0 stands for none.
std::optional<double> factor(double scalar) {
  return scalar == 0 ? std::nullopt : std::optional(scalar);
}

void average(const Recipe::Step& step, const at::Tensor& in, at::Tensor& out) {
  const auto& w = step.window;
  const auto divisor = step.divisor == 0 ? std::nullopt : std::optional(step.divisor);
  at::cpu::avg_pool2d_out(out, in, {w[0], w[1]}, {w[2], w[3]}, {w[4], w[5]}, step.ceil_mode,
                          step.count_include_pad, divisor);
}

void upsample(const Recipe::Step& step, const at::Tensor& in, at::Tensor& out) {
  const auto height = factor(step.scalars[0]);
  const auto width = factor(step.scalars[1]);
  const c10::IntArrayRef size = out.sizes().slice(2);
  if (step.op == Recipe::Operator::upsample_nearest) {
    at::cpu::upsample_nearest2d_out(out, in, size, height, width);
  } else {
    at::cpu::upsample_bilinear2d_out(out, in, size, step.align_corners, height, width);
  }
}

class HostArithmetic final : public Arithmetic {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    return c10::GetAllocator(c10::kCPU)->allocate(bytes);
  }
  at::Tensor blob(const void* data, const Layout& layout, c10::ScalarType type) const override {
    return at::from_blob(const_cast<void*>(data), layout.sizes, layout.strides, type);
  }
  void copy(const at::Tensor& from, at::Tensor& to) const override { at::native::copy_(to, from); }
  bool apply(const Recipe::Step& step, const at::Tensor& in, const Others& others,
             at::Tensor& out) const override;
  void apply_in_floats(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                       at::Tensor& out) const override;

 private:
  void normalize(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                 at::Tensor& out) const;
};

bool HostArithmetic::apply(const Recipe::Step& step, const at::Tensor& in, const Others& others,
                           at::Tensor& out) const {
  const auto& [a, b, c] = step.scalars;
  const at::Tensor& left = step.reversed ? others[0] : in;
  const at::Tensor& right = step.reversed ? in : others[0];
  switch (step.op) {
    case Recipe::Operator::gelu:
      at::cpu::gelu_out(out, in, step.tanh ? "tanh" : "none");
      return true;
    case Recipe::Operator::silu:
      at::cpu::silu_out(out, in);
      return true;
    case Recipe::Operator::leaky_relu:
      at::cpu::leaky_relu_out(out, in, a);
      return true;
    case Recipe::Operator::elu:
      at::cpu::elu_out(out, in, a, b, c);
      return true;
    case Recipe::Operator::hardswish:
      at::native::hardswish_out(in, out);
      return true;
    case Recipe::Operator::hardtanh:
      at::cpu::clamp_out(out, in, a, b);
      return true;
    case Recipe::Operator::hardsigmoid:
      at::cpu::hardsigmoid_out(out, in);
      return true;
    case Recipe::Operator::mish:
      at::cpu::mish_out(out, in);
      return true;
    case Recipe::Operator::softplus:
      at::cpu::softplus_out(out, in, a, b);
      return true;
    case Recipe::Operator::sigmoid_backward:
      at::cpu::sigmoid_backward_out(out, left, right);
      return true;
    case Recipe::Operator::tanh_backward:
      at::cpu::tanh_backward_out(out, left, right);
      return true;
    case Recipe::Operator::add:
      at::cpu::add_out(out, left, right, 1);
      return true;
    case Recipe::Operator::sub:
      at::cpu::sub_out(out, left, right, 1);
      return true;
    case Recipe::Operator::mul:
      at::cpu::mul_out(out, left, right);
      return true;
    case Recipe::Operator::div:
      at::cpu::div_out(out, left, right);
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
    case Recipe::Operator::upsample_nearest:
    case Recipe::Operator::upsample_bilinear:
      upsample(step, in, out);
      return true;
    case Recipe::Operator::attention:
      fused_attention(in, others[0], others[1], others[2], step.causal, factor(a), out);
      return true;
    default:  // those that computes_in_floats() names
      return false;
  }
}

void HostArithmetic::apply_in_floats(const Recipe::Step& step, const at::Tensor& in,
                                     const Inputs& inputs, at::Tensor& out) const {
  using enum Recipe::Operator;
  const auto* const x = static_cast<const float*>(in.const_data_ptr());
  auto* const y = static_cast<float*>(out.data_ptr());
  switch (step.op) {
    case channel_norm:
      codecs::scale_channels(step.order, x, step.scale.data(), step.shift.data(), y,
                             torch_parallel_for);
      break;
    case row_norm:
      normalize(step, in, inputs, out);
      break;
    case max_pool:
      codecs::gather_planes(step.pool, x, inputs.indices, y, torch_parallel_for);
      break;
    default:
      if (x != y) std::memcpy(y, x, static_cast<std::size_t>(out.numel()) * sizeof(float));
      if (inputs.mask != nullptr) {
        codecs::zero_where_clear(out.numel(), inputs.mask, y, torch_parallel_for);
      } else {
        codecs::zero_where_not_positive(out.numel(), y, torch_parallel_for);
      }
      break;
  }
}

// Makes the input contiguous first, as PyTorch's norm does.
void HostArithmetic::normalize(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                               at::Tensor& out) const {
  const float* x = static_cast<const float*>(in.const_data_ptr());
  auto* const y = static_cast<float*>(out.data_ptr());
  if (!in.is_contiguous() || in.scalar_type() != at::kFloat) {
    copy(in, out);
    x = y;
  }
  codecs::normalize_rows(step.rows, step.row, x, inputs.mean, inputs.rstd, step.scale.data(),
                         step.shift.data(), y, torch_parallel_for);
}

}  // namespace

const Arithmetic& host_arithmetic() noexcept {
  static const HostArithmetic arithmetic;
  return arithmetic;
}

}  // namespace cinch::hooks
