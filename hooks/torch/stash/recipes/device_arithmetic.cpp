// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/device_arithmetic.h"

#include <optional>

#include <ATen/ops/add.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/Allocator.h>

#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/device/streams.h"
#include "hooks/torch/stash/on_device/on_device.h"
#include "hooks/torch/stash/saved/verdict.h"

namespace cinch::hooks {
namespace {

/// Undefined if the constant is.
at::Tensor floats_of(const at::Tensor& constant) {
  return constant.defined() ? constant.to(at::kFloat).reshape({-1}) : constant;
}

const float* data_of(const at::Tensor& floats) {
  return floats.defined() ? floats.const_data_ptr<float>() : nullptr;
}

/// out = fma(x, factors, summands), by columns of a matrix.
void multiply_add(const at::Tensor& x, const at::Tensor& factors, const at::Tensor& summands,
                  at::Tensor& out) {
  // batch_norm_elemt gives fma(weight * (x - mean), deviation, bias).
  constexpr double unused = 0;
  at::batch_norm_elemt_out(out, x, {}, summands, at::zeros_like(factors), factors, unused);
}

/// The rows of neighbouring elements that `layout` consists of, if their beginnings are equally far
/// apart.
std::optional<codecs::cuda::Rows> rows_of(const Layout& layout) {
  codecs::cuda::Rows rows = {.first = 0, .rows = 1, .row = 1, .stride = 0};
  for (std::size_t dim = layout.sizes.size(); dim-- > 0;) {
    const std::int64_t size = layout.sizes[dim];
    const std::int64_t stride = layout.strides[dim];
    if (size == 1) continue;
    if (rows.rows == 1 && stride == rows.row) {
      rows.row *= size;
    } else if (rows.rows == 1) {
      rows.rows = size;
      rows.stride = stride;
    } else if (stride == rows.stride * rows.rows) {
      rows.rows *= size;
    } else {
      return std::nullopt;
    }
  }
  return rows;
}

}  // namespace

c10::DataPtr DeviceArithmetic::allocate(std::size_t bytes) const {
  return c10::GetAllocator(device_.type())->allocate(bytes);
}

at::Tensor DeviceArithmetic::blob(const void* data, const Layout& layout,
                                  c10::ScalarType type) const {
  return at::for_blob(const_cast<void*>(data), layout.sizes)
      .strides(layout.strides)
      .target_device(device_)
      .options(at::TensorOptions().dtype(type).device(device_))
      .make_tensor();
}

bool DeviceArithmetic::takes(const Recipe::Step& step, c10::ScalarType from,
                             c10::ScalarType to) const {
  const auto is_taken = [](c10::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  };
  return is_taken(from) && is_taken(to) && (from == to || step.op == Recipe::Operator::row_norm);
}

void DeviceArithmetic::apply_in_floats(const Recipe::Step& step, const at::Tensor& in,
                                       const Inputs& inputs, at::Tensor& out) const {
  switch (step.op) {
    case Recipe::Operator::row_norm:
      return row_norm(step, in, inputs, out);
    case Recipe::Operator::channel_norm:
      return step.row == 0 ? batch_norm(step, in, inputs, out) : group_norm(step, in, inputs, out);
    case Recipe::Operator::max_pool:
      return max_pool(step, in, inputs, out);
    default:
      break;
  }
  if (inputs.mask == nullptr) {
    at::clamp_min_out(out, in, 0);  // what PyTorch's relu() calls
  } else {
    keep_where_set(inputs.mask, in, out);
  }
}

void DeviceArithmetic::keep_where_set(const std::byte* mask, const at::Tensor& in,
                                      at::Tensor& out) const {
  const bool alike = layout_of(in) == layout_of(out);
  if (!alike) copy(in, out);
  const void* const x = alike ? in.const_data_ptr() : out.const_data_ptr();
  const std::int64_t n = out.numel();
  if (cuda_codecs()->keep_where(out.element_size(), n, mask, x, out.data_ptr(),
                                native(current_stream(device_)))) {
    return;
  }
  // By PyTorch, which has no operator for bits.
  const at::Tensor bytes = blob(mask, contiguous({(n + 7) / 8}), at::kByte).cpu();
  const auto* const bits = bytes.const_data_ptr<std::uint8_t>();
  const at::Tensor clear = at::empty({n}, at::kBool);
  auto* const is_clear = clear.mutable_data_ptr<bool>();
  for (std::int64_t k = 0; k < n; ++k) is_clear[k] = (bits[k / 8] >> (k % 8) & 1) == 0;
  if (alike) copy(in, out);
  blob(out.data_ptr(), contiguous({n}), out.scalar_type()).masked_fill_(clear.to(device_), 0);
}

bool DeviceArithmetic::apply_together(const ChannelNorm& steps, const at::Tensor& in,
                                      at::Tensor& out) const {
  const c10::ScalarType type = out.scalar_type();
  const Layout layout = layout_of(out);
  const auto is_like_out = [&](const at::Tensor& tensor) {
    return tensor.scalar_type() == type && layout_of(tensor) == layout;
  };
  const bool is_summed = steps.added.defined();
  if (!takes(steps.norm, type, type) || !is_like_out(in)) return false;
  if (is_summed && !is_like_out(steps.added)) return false;
  const at::Tensor weight = floats_of(steps.norm.weight);
  const at::Tensor bias = floats_of(steps.norm.bias);
  return cuda_codecs()->normalize_channels(
      element_type(type),
      {steps.norm.order, steps.inputs.mean, steps.inputs.rstd, data_of(weight), data_of(bias),
       is_summed ? steps.added.const_data_ptr() : nullptr, steps.relu, steps.inputs.mask},
      in.const_data_ptr(), out.data_ptr(), native(current_stream(device_)));
}

bool DeviceArithmetic::run(const codecs::cuda::Program& program, at::Tensor& out) const {
  return cuda_codecs()->apply_program(program, out.numel(), element_type(out.scalar_type()),
                                      out.data_ptr(), native(current_stream(device_)));
}

// Not where the rows of `in` are cut out of the source along a further dimension, too.
bool DeviceArithmetic::apply_without_bias(const Recipe::Step& step, const at::Tensor& in,
                                          const SourceErrors& errors, std::int64_t first,
                                          at::Tensor& out) const {
  const Layout from = layout_of(in);
  const bool alike = from == layout_of(out);
  if (in.scalar_type() != out.scalar_type() || !(alike || out.is_contiguous())) return false;
  auto rows = rows_of(alike ? contiguous({out.numel()}) : from);
  if (!rows) return false;
  rows->first = first;
  return hooks::apply_without_bias(*errors.on_device, function_of(step),
                                   element_type(out.scalar_type()), *rows, in.const_data_ptr(),
                                   out.data_ptr(), current_stream(device_));
}

void DeviceArithmetic::row_norm(const Recipe::Step& step, const at::Tensor& in,
                                const Inputs& inputs, at::Tensor& out) const {
  const at::Tensor x = in.contiguous();
  const at::Tensor weight = floats_of(step.weight);
  const at::Tensor bias = floats_of(step.bias);
  const bool launched = cuda_codecs()->normalize_rows(
      element_type(x.scalar_type()), element_type(out.scalar_type()),
      {step.rows, step.row, inputs.mean, inputs.rstd, data_of(weight), data_of(bias)},
      x.const_data_ptr(), out.data_ptr(), native(current_stream(device_)));
  if (launched) return;
  const Layout column = contiguous({step.rows, 1});
  at::Tensor normal = blob(x.const_data_ptr(), contiguous({step.rows, step.row}), x.scalar_type());
  if (inputs.mean != nullptr) normal = at::sub(normal, blob(inputs.mean, column, at::kFloat));
  normal = at::mul(normal, blob(inputs.rstd, column, at::kFloat));
  at::Tensor y = weight.defined() ? at::mul(normal, weight) : normal;
  if (bias.defined() && weight.defined()) {
    multiply_add(normal, weight, bias, y);
  } else if (bias.defined()) {
    y = at::add(normal, bias);
  }
  copy(y.view(out.sizes()), out);
}

void DeviceArithmetic::batch_norm(const Recipe::Step& step, const at::Tensor& in,
                                  const Inputs& inputs, at::Tensor& out) const {
  const Layout channels = contiguous({step.rows});
  constexpr double unused = 0;  // the deviations are known
  at::batch_norm_elemt_out(out, in, floats_of(step.weight), floats_of(step.bias),
                           blob(inputs.mean, channels, at::kFloat),
                           blob(inputs.rstd, channels, at::kFloat), unused);
}

// fma(x, scale, fma(-mean, scale, bias)) with scale = rstd * weight, for each sample and channel
void DeviceArithmetic::group_norm(const Recipe::Step& step, const at::Tensor& in,
                                  const Inputs& inputs, at::Tensor& out) const {
  const std::int64_t channels = step.order.channels;
  const std::int64_t samples = step.order.tables;
  const std::int64_t groups = step.rows / samples;
  const std::int64_t of_group = channels / groups;
  const auto by_group = [&](const float* statistic) {
    return blob(statistic, contiguous({samples, groups, 1}), at::kFloat)
        .expand({samples, groups, of_group});
  };
  const auto by_channel = [&](const at::Tensor& constant) {
    return floats_of(constant).view({1, groups, of_group}).expand({samples, groups, of_group});
  };
  const at::Tensor rstd = by_group(inputs.rstd);
  const std::int64_t all = samples * channels;
  const at::Tensor scale =
      (step.weight.defined() ? at::mul(rstd, by_channel(step.weight)) : rstd).reshape({all});
  const at::Tensor bias =
      step.bias.defined() ? by_channel(step.bias).reshape({all}) : at::zeros_like(scale);
  const at::Tensor negative = at::neg(by_group(inputs.mean)).reshape({1, all});
  at::Tensor shift = at::zeros_like(negative);
  multiply_add(negative, scale, bias, shift);
  const Layout planes = contiguous({1, all, step.order.inner});
  at::Tensor to = blob(out.data_ptr(), planes, out.scalar_type());
  multiply_add(blob(in.const_data_ptr(), planes, in.scalar_type()), scale, shift.view({all}), to);
}

void DeviceArithmetic::max_pool(const Recipe::Step& step, const at::Tensor& in,
                                const Inputs& inputs, at::Tensor& out) const {
  const auto& [outer, channels, plane_in, plane_out] = step.pool;
  const Layout pooled = contiguous({outer, plane_out, channels});
  at::Tensor to = blob(out.data_ptr(), pooled, out.scalar_type());
  at::gather_out(
      to, blob(in.const_data_ptr(), contiguous({outer, plane_in, channels}), in.scalar_type()), 1,
      blob(inputs.indices, pooled, at::kLong));
}

}  // namespace cinch::hooks
