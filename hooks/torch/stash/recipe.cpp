// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipe.h"

#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/add_cpu_dispatch.h>
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
#include <ATen/ops/silu_cpu_dispatch.h>
#include <ATen/ops/softplus_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <c10/core/Allocator.h>

#include "hooks/torch/process/parallel.h"

namespace cinch::hooks {
namespace {

/// For its scope, ATen uses as many threads as in the forward.
class Threads {
 public:
  explicit Threads(int wanted) : before_(at::get_num_threads()), differ_(wanted != before_) {
    if (differ_) at::set_num_threads(wanted);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    if (differ_) at::set_num_threads(before_);
  }

 private:
  const int before_;
  const bool differ_;
};

at::Tensor blob(const void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                c10::ScalarType type) {
  return at::from_blob(const_cast<void*>(data), sizes, strides, type);
}

// The functions below call PyTorch's kernels without its dispatcher: no autograd, no mode and no
// observer sees them.

void copy(const at::Tensor& from, at::Tensor& to) {
  at::native::copy_(to, from);
}

void activate(const Recipe::Step& step, std::int64_t n, const at::Tensor& from, at::Tensor& to) {
  at::Tensor out = at::from_blob(to.data_ptr(), {n}, to.scalar_type());
  const at::Tensor in =
      at::from_blob(const_cast<void*>(from.const_data_ptr()), {n}, from.scalar_type());
  const auto& [a, b, c] = step.scalars;
  switch (step.op) {
    case Recipe::Operator::silu:
      at::cpu::silu_out(out, in);
      break;
    case Recipe::Operator::leaky_relu:
      at::cpu::leaky_relu_out(out, in, a);
      break;
    case Recipe::Operator::elu:
      at::cpu::elu_out(out, in, a, b, c);
      break;
    case Recipe::Operator::hardswish:
      at::native::hardswish_out(in, out);
      break;
    case Recipe::Operator::hardtanh:
      at::cpu::clamp_out(out, in, a, b);
      break;
    case Recipe::Operator::hardsigmoid:
      at::cpu::hardsigmoid_out(out, in);
      break;
    case Recipe::Operator::mish:
      at::cpu::mish_out(out, in);
      break;
    case Recipe::Operator::softplus:
      at::cpu::softplus_out(out, in, a, b);
      break;
    default:
      at::cpu::gelu_out(out, in, step.tanh ? "tanh" : "none");
      break;
  }
}

void combine(Recipe::Operator op, const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  switch (op) {
    case Recipe::Operator::add:
      at::cpu::add_out(out, a, b, 1);
      break;
    case Recipe::Operator::sub:
      at::cpu::sub_out(out, a, b, 1);
      break;
    case Recipe::Operator::mul:
      at::cpu::mul_out(out, a, b);
      break;
    default:
      at::cpu::div_out(out, a, b);
      break;
  }
}

/// A dense tensor with memory of its own.
struct Temporary {
  Temporary(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type)
      : memory(c10::GetAllocator(c10::kCPU)->allocate(
            static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type))),
        tensor(blob(memory.get(), sizes, strides, type)) {}

  c10::DataPtr memory;
  at::Tensor tensor;
};

/// One evaluation of a recipe.
class Run {
 public:
  Run(const Recipe& recipe, std::span<const void* const> values, const std::byte* mask)
      : recipe_(recipe), values_(values), mask_(mask) {}

  /// Writes `value` to `out`. @pre it has steps
  void compute(const Recipe::Value& value, void* out) const {
    at::Tensor from = start_of(value);
    std::optional<Temporary> last;  // where `from` lies, if not in `out`
    for (const Recipe::Step& step : value.steps) {
      if (step.type == value.type()) {
        at::Tensor to = like_result(out, step.type);
        apply(step, from, to);
        from = to;
        continue;
      }
      Temporary next(recipe_.sizes, recipe_.strides, step.type);
      apply(step, from, next.tensor);
      last = std::move(next);
      from = last->tensor;
    }
  }

 private:
  at::Tensor start_of(const Recipe::Value& value) const {
    if (value.source < 0) {
      return at::from_blob(const_cast<float*>(value.constant.data()), value.sizes);
    }
    return blob(values_[static_cast<std::size_t>(value.source)], value.sizes, value.strides,
                value.source_type);
  }

  at::Tensor like_result(void* data, c10::ScalarType type) const {
    return blob(data, recipe_.sizes, recipe_.strides, type);
  }

  void apply(const Recipe::Step& step, const at::Tensor& from, at::Tensor& to) const {
    using enum Recipe::Operator;
    switch (step.op) {
      case gelu:
      case silu:
      case leaky_relu:
      case elu:
      case hardswish:
      case hardtanh:
      case hardsigmoid:
      case mish:
      case softplus:
        activate(step, recipe_.elements, from, to);
        break;
      case add:
      case sub:
      case mul:
      case div:
        combine_with(step, from, to);
        break;
      case cast:
        copy(from, to);
        break;
      case channel_norm:
      case row_norm:
      case relu:
      case max_pool:
        apply_in_floats(step, from, to);
        break;
    }
  }

  /// For operators that compute in float32 whatever the types are, as PyTorch's kernels do.
  void apply_in_floats(const Recipe::Step& step, const at::Tensor& from, at::Tensor& to) const {
    if (to.scalar_type() != at::kFloat) {
      Temporary result(recipe_.sizes, recipe_.strides, at::kFloat);
      apply_in_floats(step, from, result.tensor);
      copy(result.tensor, to);
      return;
    }
    using enum Recipe::Operator;
    // Layer norm's input may lie in any way: normalize() copies it.
    if (from.scalar_type() != at::kFloat && step.op != row_norm) {
      Temporary floats(from.sizes(), from.strides(), at::kFloat);
      copy(from, floats.tensor);
      apply_in_floats(step, floats.tensor, to);
      return;
    }
    const auto* const x = static_cast<const float*>(from.const_data_ptr());
    auto* const y = static_cast<float*>(to.data_ptr());
    switch (step.op) {
      case channel_norm:
        codecs::scale_channels(step.order, x, step.scale.data(), step.shift.data(), y,
                               torch_parallel_for);
        break;
      case row_norm:
        normalize(step, from, to);
        break;
      case max_pool:
        codecs::gather_planes(
            step.pool, x,
            static_cast<const std::int64_t*>(values_[static_cast<std::size_t>(step.indices)]), y,
            torch_parallel_for);
        break;
      default:
        if (x != y) std::memcpy(y, x, static_cast<std::size_t>(recipe_.elements) * sizeof(float));
        // The mask holds the signs of the recipe's last step only.
        if (mask_ != nullptr && &step == &recipe_.value.steps.back()) {
          codecs::zero_where_clear(recipe_.elements, mask_, y, torch_parallel_for);
        } else {
          codecs::zero_where_not_positive(recipe_.elements, y, torch_parallel_for);
        }
        break;
    }
  }

  // Makes the input contiguous first, as PyTorch's norm does.
  void normalize(const Recipe::Step& step, const at::Tensor& from, at::Tensor& to) const {
    const float* x = static_cast<const float*>(from.const_data_ptr());
    auto* const y = static_cast<float*>(to.data_ptr());
    if (!from.is_contiguous() || from.scalar_type() != at::kFloat) {
      copy(from, to);
      x = y;
    }
    codecs::normalize_rows(step.rows, step.row, x, statistic(step.mean), statistic(step.rstd),
                           step.scale.data(), step.shift.data(), y, torch_parallel_for);
  }

  void combine_with(const Recipe::Step& step, const at::Tensor& from, at::Tensor& to) const {
    std::optional<Temporary> computed;
    at::Tensor other;
    if (step.other->steps.empty()) {
      other = start_of(*step.other);
    } else {
      computed.emplace(recipe_.sizes, recipe_.strides, step.other->type());
      compute(*step.other, computed->tensor.data_ptr());
      other = computed->tensor;
    }
    if (step.reversed) {
      combine(step.op, other, from, to);
    } else {
      combine(step.op, from, other, to);
    }
  }

  const float* statistic(const Recipe::Statistic& of) const {
    return of.source >= 0 ? static_cast<const float*>(values_[static_cast<std::size_t>(of.source)])
                          : of.held.const_data_ptr<float>();
  }

  const Recipe& recipe_;
  const std::span<const void* const> values_;
  const std::byte* const mask_;
};

void append(std::vector<std::int64_t>& key, const Recipe::Value& value) {
  key.push_back(value.source);
  key.push_back(static_cast<std::int64_t>(value.source_type));
  key.push_back(static_cast<std::int64_t>(value.sizes.size()));
  key.insert(key.end(), value.sizes.begin(), value.sizes.end());
  key.insert(key.end(), value.strides.begin(), value.strides.end());
  key.push_back(static_cast<std::int64_t>(value.steps.size()));
  for (const Recipe::Step& step : value.steps) {
    key.insert(
        key.end(),
        {static_cast<std::int64_t>(step.op) * 4 + (step.tanh ? 1 : 0) + (step.reversed ? 2 : 0),
         static_cast<std::int64_t>(step.type), step.order.outer, step.order.channels,
         step.order.inner, step.order.tables, step.pool.outer, step.pool.channels,
         step.pool.plane_in, step.pool.plane_out, step.rows, step.row});
    for (const double scalar : step.scalars) key.push_back(std::bit_cast<std::int64_t>(scalar));
    if (step.other != nullptr) append(key, *step.other);
  }
}

std::size_t constant_bytes_of(const Recipe::Value& value) {
  std::size_t bytes = value.constant.size() * sizeof(float);
  for (const Recipe::Step& step : value.steps) {
    bytes += (step.scale.size() + step.shift.size()) * sizeof(float);
    for (const Recipe::Statistic* each : {&step.mean, &step.rstd}) {
      if (each->held.defined()) bytes += static_cast<std::size_t>(each->held.nbytes());
    }
    if (step.other != nullptr) bytes += constant_bytes_of(*step.other);
  }
  return bytes;
}

}  // namespace

const void* Recipe::Source::values_in(const c10::Storage& storage) const {
  return static_cast<const std::byte*>(storage.data()) +
         use.geometry.offset() * static_cast<std::int64_t>(c10::elementSize(use.type));
}

std::vector<std::int64_t> Recipe::key() const {
  std::vector<std::int64_t> key = {static_cast<std::int64_t>(source_count), elements, threads,
                                   static_cast<std::int64_t>(version)};
  append(key, value);
  return key;
}

std::string Recipe::label() const {
  const SiteNames* names = all_sources.front().use.site->names();
  return names == nullptr ? "derived" : "derived from " + names->op + ' ' + names->operand;
}

std::size_t Recipe::constant_bytes() const noexcept {
  return constant_bytes_of(value);
}

std::size_t Entry::constant_bytes() const noexcept {
  return recipe == nullptr ? 0 : recipe->constant_bytes();
}

void Recipe::compute(std::span<const void* const> values, const std::byte* mask, void* out) const {
  const Threads as_then(threads);
  Run(*this, values, mask).compute(value, out);
}

}  // namespace cinch::hooks
