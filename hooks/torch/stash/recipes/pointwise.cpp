// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/pointwise.h"

#include <algorithm>

#include "codecs/arithmetic/norms.h"
#include "hooks/torch/stash/recipes/arithmetic.h"

namespace cinch::hooks {
namespace {

bool is_held(const Recipe::Statistic& statistic) {
  return statistic.held.defined() && statistic.held.scalar_type() == at::kFloat;
}

bool is_pointwise(const Recipe::Step& step, const Recipe::Value& of) {
  using enum Recipe::Operator;
  if (step.type != at::kFloat) return false;
  switch (step.op) {
    case channel_norm:
    case relu:
      return true;
    case row_norm:
      return is_contiguous(of.start) && is_held(step.mean) && is_held(step.rstd);
    default:
      return Recipe::is_curved(step.op) && &step == &of.steps.front();
  }
}

}  // namespace

bool is_pointwise(const Recipe& recipe) {
  const Recipe::Value& value = recipe.value;
  const bool is_of_a_source = recipe.device.is_cpu() && recipe.source_count == 1 &&
                              value.source == 0 && value.parts.empty() && value.viewed == nullptr &&
                              !value.steps.empty();
  if (!is_of_a_source) return false;
  const Recipe::Source& source = recipe.all_sources.front();
  const bool lies_alike = value.offset == 0 && source.use.geometry.offset() == 0 &&
                          source.use.type == at::kFloat && value.start_type == at::kFloat &&
                          value.start == value.result && source.entry->raw_bytes == recipe.bytes();
  return lies_alike && std::ranges::all_of(value.steps, [&](const Recipe::Step& step) {
           return is_pointwise(step, value);
         });
}

bool needs_errors(const Recipe& recipe) {
  return Recipe::is_curved(recipe.value.steps.front().op);
}

void apply_pointwise(const Recipe& recipe, const std::byte* mask, const SourceErrors& errors,
                     std::int64_t begin, std::int64_t end, float* values) {
  using enum Recipe::Operator;
  float* const from = values + begin;
  const std::int64_t count = end - begin;
  for (const Recipe::Step& step : recipe.value.steps) {
    switch (step.op) {
      case channel_norm:
        codecs::scale_channels(step.order, begin, end, values, step.scale.data(), step.shift.data(),
                               values);
        break;
      case row_norm:
        codecs::normalize_rows(begin, end, step.row, values, step.mean.held.const_data_ptr<float>(),
                               step.rstd.held.const_data_ptr<float>(), step.scale.data(),
                               step.shift.data(), values);
        break;
      case relu:
        if (mask != nullptr && &step == &recipe.value.steps.back()) {
          codecs::zero_where_clear(count, mask + begin / 8, from, codecs::serial_for);
        } else {
          codecs::zero_where_not_positive(count, from, codecs::serial_for);
        }
        break;
      default:
        codecs::apply_without_bias(Arithmetic::function_of(step),
                                   {errors.steps.data(), errors.order}, begin, count, from, from,
                                   codecs::serial_for);
        break;
    }
  }
}

}  // namespace cinch::hooks
