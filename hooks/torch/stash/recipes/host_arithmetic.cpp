// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/host_arithmetic.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>

#include "codecs/arithmetic/norms.h"
#include "codecs/arithmetic/pooling.h"
#include "hooks/torch/process/parallel.h"

namespace cinch::hooks {
namespace {

class HostArithmetic final : public Arithmetic {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    return c10::GetAllocator(c10::kCPU)->allocate(bytes);
  }
  at::Tensor blob(const void* data, const Layout& layout, c10::ScalarType type) const override {
    return at::from_blob(const_cast<void*>(data), layout.sizes, layout.strides, type);
  }
  bool takes(const Recipe::Step& step, c10::ScalarType from, c10::ScalarType to) const override {
    const bool is_row_norm = step.op == Recipe::Operator::row_norm;
    return to == at::kFloat && (from == at::kFloat || is_row_norm);
  }
  void apply_in_floats(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                       at::Tensor& out) const override;
  bool apply_without_bias(const Recipe::Step& step, const at::Tensor& in,
                          const SourceErrors& errors, std::int64_t first,
                          at::Tensor& out) const override;

 private:
  void normalize(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                 at::Tensor& out) const;
};

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

/// Where row `r` of the last dimension begins, in elements.
std::int64_t row_offset(const Layout& of, std::int64_t r) {
  std::int64_t offset = 0;
  for (std::size_t dim = of.sizes.size() - 1; dim-- > 0;) {
    offset += r % of.sizes[dim] * of.strides[dim];
    r /= of.sizes[dim];
  }
  return offset;
}

// Not where the source's elements do not lie in rows.
bool HostArithmetic::apply_without_bias(const Recipe::Step& step, const at::Tensor& in,
                                        const SourceErrors& errors, std::int64_t first,
                                        at::Tensor& out) const {
  const Layout from = layout_of(in);
  const Layout to = layout_of(out);
  const bool alike = from == to;
  if (!alike && (from.sizes.empty() || from.strides.back() != 1 || !out.is_contiguous())) {
    return false;
  }
  const bool is_float = out.scalar_type() == at::kFloat;
  const std::int64_t n = out.numel();
  const c10::DataPtr memory =
      is_float ? c10::DataPtr() : allocate(static_cast<std::size_t>(n) * sizeof(float));
  at::Tensor values = is_float ? out : blob(memory.get(), to, at::kFloat);
  const bool serves = alike && in.scalar_type() == at::kFloat;
  if (!serves) copy(in, values);
  const auto* const x = (serves ? in : values).const_data_ptr<float>();
  auto* const y = values.mutable_data_ptr<float>();
  const codecs::Smooth function = function_of(step);
  const codecs::GroupSteps steps = {errors.steps.data(), errors.order};
  if (alike) {
    codecs::apply_without_bias(function, steps, first, n, x, y, torch_parallel_for);
  } else {
    const std::int64_t row = from.sizes.back();
    const std::int64_t rows = n / std::max<std::int64_t>(1, row);
    codecs::for_range(torch_parallel_for, rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        codecs::apply_without_bias(function, steps, first + row_offset(from, r), row, x + r * row,
                                   y + r * row, codecs::serial_for);
      }
    });
  }
  if (!is_float) copy(values, out);
  return true;
}

}  // namespace

const Arithmetic& host_arithmetic() noexcept {
  static const HostArithmetic arithmetic;
  return arithmetic;
}

}  // namespace cinch::hooks
