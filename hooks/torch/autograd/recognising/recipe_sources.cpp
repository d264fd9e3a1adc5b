// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognising/recipe_sources.h"

#include <algorithm>

#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/autograd/nodes/members.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"
#include "hooks/torch/program/backward.h"
#include "hooks/torch/program/below_program.h"
#include "hooks/torch/program/node_number.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;

bool lies_alike(const HeldTensor& held, const Layout& want) {
  return held.use().geometry.sizes() == c10::IntArrayRef(want.sizes) &&
         held.use().geometry.strides() == want.strides;
}

/// The value that the tensor, which a node made, has now.
UnsavedSources::Key value_of(const at::Tensor& tensor) {
  const Node& producer = *tensor.grad_fn();
  return {&producer, producer.sequence_nr(), static_cast<std::uint32_t>(tensor.output_nr()),
          torch::autograd::impl::version_counter(tensor).current_version()};
}

at::Tensor copy_of(const at::Tensor& tensor) {
  const BelowProgram guard;
  return tensor.clone(at::MemoryFormat::Contiguous);
}

/// A Python number, which is a tensor of a double or of an integer to PyTorch.
double number_in(const at::Tensor& number) {
  return number.scalar_type() == at::kDouble
             ? *number.const_data_ptr<double>()
             : static_cast<double>(*number.const_data_ptr<std::int64_t>());
}

}  // namespace

bool has_recipes(c10::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
}

bool RecipeSources::copy_constant(SavedVariable& saved, c10::ScalarType type, Value& to) const {
  if (saved.has_hooks() || !members::is_as_saved(saved)) return false;
  const at::Tensor& data = members::data_of(saved);
  if (data.numel() > saved_constants::most) return false;
  const bool is_number = data.is_cpu() && data.dim() == 0 &&
                         (data.scalar_type() == at::kDouble || data.scalar_type() == at::kLong);
  if (!recipe_.device.is_cpu()) {
    // PyTorch's kernels read a number in the host's memory when they are enqueued.
    const bool serves =
        is_number || (has_recipes(data.scalar_type()) &&
                      (data.device() == recipe_.device || (data.is_cpu() && data.dim() == 0)));
    if (!serves) return false;
    to.on_device = data.tensor_data();
    to.start_type = data.scalar_type();
  } else if (!data.is_cpu()) {
    return false;
  } else if (is_number) {
    return take_number(number_in(data), type, to);
  } else if (!saved_constants::copy(data, data.numel(), to.constant)) {
    return false;
  }
  to.start = contiguous(data.sizes());
  return true;
}

bool RecipeSources::take_number(double number, c10::ScalarType type, Value& to) const {
  to.start = contiguous({});
  if (!recipe_.device.is_cpu()) {
    to.on_device = at::native::wrapped_scalar_tensor(number);
    to.start_type = at::kDouble;
    return true;
  }
  to.constant = {static_cast<float>(number)};
  // In an operator of doubles it counts with all its digits.
  return type != at::kDouble || static_cast<double>(to.constant.front()) == number;
}

bool RecipeSources::hold_value(SavedVariable& saved, Value& to) {
  const HeldTensor* held = held_by_stash(saved);
  return held != nullptr && hold_value(*held, to);
}

bool RecipeSources::hold_value(const HeldTensor& held, Value& to) {
  return has_recipes(held.use().type) && begin_with(held, to);
}

bool RecipeSources::hold_whole(const HeldTensor& held, const Layout& whole, Value& to) {
  const c10::ScalarType type = held.use().type;
  const auto bytes = static_cast<std::size_t>(whole.elements()) * c10::elementSize(type);
  if (!has_recipes(type) || held.entry()->raw_bytes != bytes) return false;
  const auto source = hold(held, Geometry(whole.sizes, whole.strides, 0));
  if (!source) return false;
  to.source = *source;
  to.start_type = type;
  to.start = whole;
  return true;
}

bool RecipeSources::hold_flags(SavedVariable& saved, const Layout& want, Value& to) {
  const HeldTensor* held = held_by_stash(saved);
  return held != nullptr && held->use().type == at::kBool && lies_alike(*held, want) &&
         begin_with(*held, to);
}

/// Begins a value with a source.
bool RecipeSources::begin_with(const HeldTensor& held, Value& to) {
  const auto source = hold(held, held.use().geometry);
  if (!source) return false;
  to.source = *source;
  to.start_type = held.use().type;
  to.start = {c10::DimVector(held.use().geometry.sizes()), held.use().geometry.strides()};
  return true;
}

bool RecipeSources::hold_alike(SavedVariable& saved, const Layout& want, Value& to) {
  const HeldTensor* held = held_by_stash(saved);
  return held != nullptr && lies_alike(*held, want) && hold_value(*held, to);
}

bool RecipeSources::hold_of_sizes(SavedVariable& saved, c10::IntArrayRef sizes, Value& to) {
  const HeldTensor* held = held_by_stash(saved);
  return held != nullptr && held->use().geometry.sizes() == sizes && hold_value(*held, to);
}

std::optional<int> RecipeSources::hold_alike(const HeldTensor& held, const Layout& want) {
  return lies_alike(held, want) ? hold(held, held.use().geometry) : std::nullopt;
}

bool RecipeSources::hold_copy(const at::Tensor& tensor, Site& site, Value& to) {
  const bool serves = recipe_.source_count != Recipe::most_sources &&
                      has_recipes(tensor.scalar_type()) && tensor.device() == recipe_.device &&
                      reads_values(site) && !runs_backward() &&
                      stash().judge(tensor, false, false) == Verdict::wanted;
  if (!serves) return false;
  const Layout layout = contiguous(tensor.sizes());
  Use use;
  use.site = &site;
  use.geometry = Geometry(layout.sizes, layout.strides, 0);
  use.type = tensor.scalar_type();
  use.sequence = static_cast<std::uint32_t>(new_nodes_number());
  Recipe::Source& source = recipe_.all_sources[recipe_.source_count];
  source.version = c10::VariableVersion(0);  // nobody changes it
  source.saved_version = 0;
  const UnsavedSources::Key key = value_of(tensor);
  if (const auto depth = stash().derivation().hold_unsaved(recipe_, source, key, use)) {
    to.source = count_source(*depth);
  } else {
    source.entry = &stash().save(copy_of(tensor), source.use);
    to.source = count_source(0);
    stash().derivation().add_unsaved(key, *source.entry);
  }
  to.start_type = use.type;
  to.start = layout;
  return true;
}

bool RecipeSources::hold_statistic(SavedVariable& saved, std::int64_t n, Recipe::Statistic& to) {
  if (!saved.has_hooks()) {
    const at::Tensor& data = members::data_of(saved);
    const bool fits = data.defined() && data.scalar_type() == at::kFloat &&
                      data.device() == recipe_.device && saved_constants::is_plain(data, n);
    if (fits) to.held = data.tensor_data();
    return fits;
  }
  const HeldTensor* held = held_by_stash(saved);
  if (held == nullptr || held->use().geometry.offset() != 0) return false;
  if (held->use().type != at::kFloat) return false;
  if (held->entry()->raw_bytes != static_cast<std::size_t>(n) * sizeof(float)) return false;
  const auto source = hold(*held, held->use().geometry);
  if (source) to.source = *source;
  return source.has_value();
}

std::optional<int> RecipeSources::hold(const HeldTensor& held, const Geometry& geometry) {
  if (!held.is_as_saved() || recipe_.source_count == Recipe::most_sources) return std::nullopt;
  if (held.entry()->device_index() != recipe_.device.index()) return std::nullopt;
  Recipe::Source& source = recipe_.all_sources[recipe_.source_count];
  source.version = held.version();
  source.saved_version = held.saved_version();
  const auto depth =
      stash().derivation().hold_source(recipe_, source, *held.entry(), held.use(), geometry);
  if (!depth) return std::nullopt;
  return count_source(*depth);
}

/// Counts the next source, which is held. @return its index
int RecipeSources::count_source(std::uint8_t depth) {
  recipe_.depth = std::max<std::uint8_t>(recipe_.depth, depth + 1);
  return static_cast<int>(recipe_.source_count++);
}

}  // namespace cinch::hooks
