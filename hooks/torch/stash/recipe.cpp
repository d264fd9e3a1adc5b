// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipe.h"

#include <algorithm>
#include <cstring>

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu_cpu_dispatch.h>
#include <ATen/ops/silu_cpu_dispatch.h>

#include "hooks/torch/process/parallel.h"

namespace cinch::hooks {
namespace {

/// For its scope, ATen splits work among as many threads as it did in the forward.
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

const float* values_of(const Recipe::Statistic& statistic, std::span<const float* const> values) {
  return statistic.source >= 0 ? values[static_cast<std::size_t>(statistic.source)]
                               : statistic.held.const_data_ptr<float>();
}

// PyTorch's own kernels, without its dispatcher: no autograd, no mode and no observer sees them.
void activate(const Recipe::Step& step, std::int64_t n, const float* from, float* to) {
  at::Tensor out = at::from_blob(to, {n}, at::kFloat);
  const at::Tensor in = at::from_blob(const_cast<float*>(from), {n}, at::kFloat);
  if (step.op == Recipe::Operator::silu) {
    at::cpu::silu_out(out, in);
  } else {
    at::cpu::gelu_out(out, in, step.tanh ? "tanh" : "none");
  }
}

void add(std::int64_t n, const float* a, const float* b, float* to) {
  codecs::for_range(torch_parallel_for, n, 32768, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) to[k] = a[k] + b[k];
  });
}

}  // namespace

std::vector<std::int64_t> Recipe::key() const {
  std::vector<std::int64_t> key = {static_cast<std::int64_t>(source_count), elements, threads,
                                   static_cast<std::int64_t>(version)};
  for (const Step& step : steps) {
    key.insert(key.end(), {static_cast<std::int64_t>(step.op) * 2 + (step.tanh ? 1 : 0), step.other,
                           step.order.outer, step.order.channels, step.order.inner,
                           step.order.tables, step.rows, step.row});
  }
  return key;
}

std::string Recipe::label() const {
  const SiteNames* names = all_sources.front().use.site->names();
  return names == nullptr ? "derived" : "derived from " + names->op + ' ' + names->operand;
}

std::size_t Recipe::constant_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Step& step : steps) {
    bytes += (step.scale.size() + step.shift.size()) * sizeof(float);
    for (const Statistic* each : {&step.mean, &step.rstd}) {
      if (each->held.defined()) bytes += static_cast<std::size_t>(each->held.nbytes());
    }
  }
  return bytes;
}

std::size_t Entry::constant_bytes() const noexcept {
  return recipe == nullptr ? 0 : recipe->constant_bytes();
}

void Recipe::compute(std::span<const float* const> values, const std::byte* mask,
                     float* out) const {
  const Threads as_then(threads);
  const float* from = values.front();
  for (const Step& step : steps) {
    switch (step.op) {
      case Operator::channel_norm:
        codecs::scale_channels(step.order, from, step.scale.data(), step.shift.data(), out,
                               torch_parallel_for);
        break;
      case Operator::row_norm:
        codecs::normalize_rows(step.rows, step.row, from, values_of(step.mean, values),
                               values_of(step.rstd, values), step.scale.data(), step.shift.data(),
                               out, torch_parallel_for);
        break;
      case Operator::relu:
        if (from != out) std::memcpy(out, from, static_cast<std::size_t>(elements) * sizeof(float));
        if (mask != nullptr) {
          codecs::zero_where_clear(elements, mask, out, torch_parallel_for);
        } else {
          codecs::zero_where_not_positive(elements, out, torch_parallel_for);
        }
        break;
      case Operator::gelu:
      case Operator::silu:
        activate(step, elements, from, out);
        break;
      case Operator::add:
        add(elements, from, values[static_cast<std::size_t>(step.other)], out);
        break;
    }
    from = out;
  }
}

}  // namespace cinch::hooks
