// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/host_arithmetic.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>

#include "codecs/curvature.h"
#include "codecs/norms.h"
#include "codecs/pooling.h"
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
  void apply_in_floats(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                       at::Tensor& out) const override;

 private:
  void apply_to_floats(const Recipe::Step& step, const SourceErrors& errors, const Layout& lies,
                       std::int64_t first, const at::Tensor& x, at::Tensor& y) const override;
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

codecs::Smooth function_of(const Recipe::Step& step) {
  if (step.op == Recipe::Operator::silu) return codecs::Smooth::silu;
  return step.tanh ? codecs::Smooth::gelu_tanh : codecs::Smooth::gelu;
}

// Nothing is subtracted where the source's elements do not lie in rows.
void HostArithmetic::apply_to_floats(const Recipe::Step& step, const SourceErrors& errors,
                                     const Layout& lies, std::int64_t first, const at::Tensor& x,
                                     at::Tensor& y) const {
  const codecs::Smooth function = function_of(step);
  const codecs::GroupSteps steps = {errors.steps.const_data_ptr<float>(), errors.group,
                                    errors.plane};
  const auto* const from = x.const_data_ptr<float>();
  auto* const to = y.mutable_data_ptr<float>();
  const std::int64_t n = y.numel();
  if (lies == layout_of(y)) {
    codecs::apply_without_bias(function, steps, first, n, from, to, torch_parallel_for);
    return;
  }
  if (lies.sizes.empty() || lies.strides.back() != 1 || !y.is_contiguous()) {
    static constexpr float none = 0;
    codecs::apply_without_bias(function, {&none, n, n}, 0, n, from, to, torch_parallel_for);
    return;
  }
  const std::int64_t row = lies.sizes.back();
  const std::int64_t rows = n / std::max<std::int64_t>(1, row);
  codecs::for_range(torch_parallel_for, rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::int64_t place = first;
      std::int64_t rest = r;
      for (std::size_t dim = lies.sizes.size() - 1; dim-- > 0;) {
        place += rest % lies.sizes[dim] * lies.strides[dim];
        rest /= lies.sizes[dim];
      }
      codecs::apply_without_bias(function, steps, place, row, from + r * row, to + r * row,
                                 codecs::serial_for);
    }
  });
}

}  // namespace

const Arithmetic& host_arithmetic() noexcept {
  static const HostArithmetic arithmetic;
  return arithmetic;
}

}  // namespace cinch::hooks
