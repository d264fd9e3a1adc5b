// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/recipe.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>

#include "hooks/torch/program/below_program.h"
#include "hooks/torch/stash/recipes/arithmetic.h"
#include "hooks/torch/stash/recipes/device_program.h"
#include "hooks/torch/stash/recipes/fused_attention.h"

namespace cinch::hooks {
namespace {

/// For its scope, ATen uses as many threads as in the forward; 0: as many as it does.
class Threads {
 public:
  explicit Threads(int wanted)
      : before_(at::get_num_threads()), differ_(wanted != 0 && wanted != before_) {
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

/// A tensor without gaps that has memory of its own.
struct Temporary {
  Temporary(const Arithmetic& arithmetic, const Layout& layout, c10::ScalarType type)
      : memory(arithmetic.allocate(static_cast<std::size_t>(layout.elements()) *
                                   c10::elementSize(type))),
        tensor(arithmetic.blob(memory.get(), layout, type)) {}

  c10::DataPtr memory;
  at::Tensor tensor;
};

/// One evaluation of a recipe, unseen by the program.
class Run {
 public:
  Run(const Recipe& recipe, const Arithmetic& arithmetic, std::span<const void* const> values,
      const std::byte* mask, std::span<const SourceErrors> errors, at::Tensor* other)
      : recipe_(recipe),
        arithmetic_(arithmetic),
        values_(values),
        mask_(mask),
        errors_(errors),
        other_(other) {}

  /// Writes `value`, after its first `steps` steps, to `out`. @pre the last of them has its type
  void compute(const Recipe::Value& value, std::size_t steps, void* out) const {
    std::optional<Temporary> last;  // where `from` lies, if not in `out`
    const auto moves = [&](std::size_t i) { return i < steps && Recipe::moves(value.steps[i]); };
    at::Tensor from = start_of(value, moves(0) ? nullptr : out, last);
    for (std::size_t i = 0; i < steps;) {
      std::optional<Temporary> next;
      const auto target_before = [&](std::size_t end) {
        const c10::ScalarType type = value.steps[end - 1].type;
        const bool in_place = type == value.type() && !moves(end);
        return target(value.result, type, in_place ? out : nullptr, next);
      };
      std::size_t end = end_of_norm(value, i, steps);
      at::Tensor to;
      if (end == i || !apply_together(value, i, end, from, to = target_before(end))) {
        end = run_program(value, i, steps, from, target_before, to);
      }
      if (end == i) {
        const Recipe::Step& step = value.steps[i];
        end = i + 1;
        if (end < steps && rounds_to(step, from, value.steps[end])) ++end;
        to = target_before(end);
        if (i != 0 || !apply_without_bias(value, from, to)) apply(step, from, to);
      }
      if (next) last = std::move(next);
      from = to;
      i = end;
    }
  }

 private:
  /// The end of the steps that a device may take together from the `i`-th one on: a batch norm,
  /// perhaps a sum with a value that lies alike, perhaps a ReLU. `i` if there are none.
  std::size_t end_of_norm(const Recipe::Value& value, std::size_t i, std::size_t steps) const {
    const Recipe::Step& norm = value.steps[i];
    const bool is_batch_norm = norm.op == Recipe::Operator::channel_norm && norm.row == 0;
    if (recipe_.device.is_cpu() || !is_batch_norm) return i;
    std::size_t end = i + 1;
    const auto goes_on_with = [&](Recipe::Operator op) {
      return end < steps && value.steps[end].op == op && value.steps[end].type == norm.type &&
             value.steps[end].numbers.empty();
    };
    if (goes_on_with(Recipe::Operator::add)) {
      const Recipe::Value& other = value.steps[end].others[0];
      if (other.type() == norm.type && other.layout() == value.result) ++end;
    }
    if (goes_on_with(Recipe::Operator::relu)) ++end;
    return end;
  }

  bool apply_together(const Recipe::Value& value, std::size_t begin, std::size_t end,
                      const at::Tensor& from, at::Tensor to) const {
    const Recipe::Step& last = value.steps[end - 1];
    Arithmetic::ChannelNorm steps = {.norm = value.steps[begin],
                                     .inputs = inputs_of(last),  // for the mask
                                     .added = {},
                                     .relu = last.op == Recipe::Operator::relu};
    steps.inputs.mean = statistic(steps.norm.mean);
    steps.inputs.rstd = statistic(steps.norm.rstd);
    std::optional<Temporary> computed;
    const bool is_summed = end - begin > (steps.relu ? 2 : 1);
    if (is_summed) steps.added = evaluate(value.steps[begin + 1].others[0], computed);
    return arithmetic_.apply_together(steps, from, to);
  }

  /// Applies as many steps from the `i`-th one on as one program of a device can.
  /// @param target_before Gives where the result goes, of steps before a certain one; it becomes
  /// `to`
  /// @return which step is next; `i`, and nothing is done, where single operators do as well
  template <typename Target>
  std::size_t run_program(const Recipe::Value& value, std::size_t i, std::size_t steps,
                          const at::Tensor& from, const Target& target_before,
                          at::Tensor& to) const {
    const bool is_masked_last = mask_ != nullptr && &value == &recipe_.value;
    const std::size_t most = is_masked_last && steps == value.steps.size() ? steps - 1 : steps;
    const std::span<const Recipe::Step> left(value.steps.data() + i, std::max(i, most) - i);
    if (recipe_.device.is_cpu() || !DeviceProgram::pays(left)) return i;
    std::deque<std::optional<Temporary>> computed;
    DeviceProgram program(
        value.result,
        {[&](const Recipe::Value& operand) { return start_of(operand, computed.emplace_back()); },
         [&](const Recipe::Value& operand) { return evaluate(operand, computed.emplace_back()); }});
    std::size_t end = i;
    if (!program.begin(from)) return i;
    while (end < most && program.add(value.steps[end])) ++end;
    if (end == i) return i;
    to = target_before(end);
    return arithmetic_.run(program.get(), to) ? end : i;
  }

  /// Whether a step's kernel can write what a conversion that follows it would.
  bool rounds_to(const Recipe::Step& step, const at::Tensor& from, const Recipe::Step& next) const {
    return Recipe::computes_in_floats(step.op) && step.type == at::kFloat &&
           next.op == Recipe::Operator::copy &&
           arithmetic_.takes(step, from.scalar_type(), next.type);
  }

  /// Where a value is written: to `out`, or to `memory` if that is null.
  at::Tensor target(const Layout& layout, c10::ScalarType type, void* out,
                    std::optional<Temporary>& memory) const {
    if (out != nullptr) return arithmetic_.blob(out, layout, type);
    return memory.emplace(arithmetic_, layout, type).tensor;
  }

  /// The value before its steps. Parts are joined in `out`, if that is not null and of their type.
  at::Tensor start_of(const Recipe::Value& value, void* out,
                      std::optional<Temporary>& memory) const {
    if (value.parts.empty()) return start_of(value, memory);
    const bool in_place = value.start_type == value.type();
    at::Tensor to = target(value.start, value.start_type, in_place ? out : nullptr, memory);
    std::int64_t first = 0;
    for (const Recipe::Value& part : value.parts) {
      std::optional<Temporary> computed;
      const at::Tensor from = evaluate(part, computed);
      const std::int64_t count = from.size(value.joined);
      at::Tensor place = arithmetic_.slice_of(to, value.joined, first, count);
      arithmetic_.copy(from, place);
      first += count;
    }
    return to;
  }

  /// The value before its steps. @param memory For a view of what has to be computed
  at::Tensor start_of(const Recipe::Value& value, std::optional<Temporary>& memory) const {
    if (value.on_device.defined()) return value.on_device;
    const void* data = value.constant.data();
    if (value.source >= 0) data = values_[static_cast<std::size_t>(value.source)];
    if (value.viewed != nullptr) data = evaluate(*value.viewed, memory).const_data_ptr();
    const auto first = static_cast<std::size_t>(value.offset) * c10::elementSize(value.start_type);
    return arithmetic_.blob(static_cast<const std::byte*>(data) + first, value.start,
                            value.start_type);
  }

  /// The value after its steps. @param memory For what has to be computed
  at::Tensor evaluate(const Recipe::Value& value, std::optional<Temporary>& memory) const {
    if (!value.is_computed()) return start_of(value, memory);
    memory.emplace(arithmetic_, value.layout(), value.type());
    compute(value, value.steps.size(), memory->memory.get());
    return memory->tensor;
  }

  /// The first step, if it has a bias that is known. @return whether it was applied
  bool apply_without_bias(const Recipe::Value& value, const at::Tensor& from,
                          at::Tensor& to) const {
    const Recipe::Step& step = value.steps.front();
    if (errors_.empty() || value.source < 0 || !Recipe::is_curved(step.op)) return false;
    const auto number = static_cast<std::size_t>(value.source);
    const SourceErrors& errors = errors_[number];
    const Recipe::Source& source = recipe_.all_sources[number];
    return errors.are_even() &&
           arithmetic_.apply_without_bias(step, from, errors,
                                          source.use.geometry.offset() + value.offset, to);
  }

  void apply(const Recipe::Step& step, const at::Tensor& from, at::Tensor& to) const {
    Arithmetic::Others others;
    std::array<std::optional<Temporary>, std::tuple_size_v<Arithmetic::Others>> computed;
    for (std::size_t i = 0; i < step.others.size(); ++i) {
      others[i] = evaluate(step.others[i], computed[i]);
    }
    if (Recipe::is_attention(step.op)) {
      at::Tensor other = fused_attention(step, from, others, to);
      if (other_ != nullptr) *other_ = std::move(other);
    } else if (!arithmetic_.apply(step, from, others, to)) {
      apply_in_floats(step, from, to);
    }
  }

  /// For operators that compute in float32 whatever the types are, as PyTorch's kernels do.
  void apply_in_floats(const Recipe::Step& step, const at::Tensor& from, at::Tensor& to) const {
    if (arithmetic_.takes(step, from.scalar_type(), to.scalar_type())) {
      arithmetic_.apply_in_floats(step, from, inputs_of(step), to);
    } else if (to.scalar_type() != at::kFloat) {
      Temporary result(arithmetic_, layout_of(to), at::kFloat);
      apply_in_floats(step, from, result.tensor);
      arithmetic_.copy(result.tensor, to);
    } else {
      Temporary floats(arithmetic_, layout_of(from), at::kFloat);
      arithmetic_.copy(from, floats.tensor);
      arithmetic_.apply_in_floats(step, floats.tensor, inputs_of(step), to);
    }
  }

  Arithmetic::Inputs inputs_of(const Recipe::Step& step) const {
    Arithmetic::Inputs inputs{statistic(step.mean), statistic(step.rstd)};
    if (step.indices >= 0) {
      inputs.indices =
          static_cast<const std::int64_t*>(values_[static_cast<std::size_t>(step.indices)]);
    }
    // The mask holds the signs of the recipe's last step only. What sees or joins values has none.
    const std::vector<Recipe::Step>& last = recipe_.value.steps;
    if (!last.empty() && &step == &last.back()) inputs.mask = mask_;
    return inputs;
  }

  const float* statistic(const Recipe::Statistic& of) const {
    if (of.source >= 0) {
      return static_cast<const float*>(values_[static_cast<std::size_t>(of.source)]);
    }
    return of.held.defined() ? of.held.const_data_ptr<float>() : nullptr;
  }

  const BelowProgram guard_;
  const Recipe& recipe_;
  const Arithmetic& arithmetic_;
  const std::span<const void* const> values_;
  const std::byte* const mask_;
  const std::span<const SourceErrors> errors_;
  at::Tensor* const other_;
};

// A recipe's structure has fewer words, and so have its extents, as a rule.
constexpr std::size_t usual_words = 128;

/// Collects what describes a recipe: its structure, and the extents of its values.
struct Description {
  Words structure;
  Words extents;

  void add(const Layout& layout) {
    structure.push_back(static_cast<std::int64_t>(layout.sizes.size()));
    structure.push_back(is_contiguous(layout) ? 1 : 0);
    extents.insert(extents.end(), layout.sizes.begin(), layout.sizes.end());
    extents.insert(extents.end(), layout.strides.begin(), layout.strides.end());
  }

  void add(const Recipe::Value& value) {
    structure.insert(structure.end(), {value.source, static_cast<std::int64_t>(value.start_type),
                                       value.joined, static_cast<std::int64_t>(value.parts.size()),
                                       static_cast<std::int64_t>(value.steps.size())});
    extents.push_back(value.offset);
    add(value.start);
    if (!value.steps.empty()) add(value.result);
    for (const Recipe::Value& part : value.parts) add(part);
    structure.push_back(value.viewed != nullptr ? 1 : 0);
    if (value.viewed != nullptr) add(*value.viewed);
    for (const Recipe::Step& step : value.steps) add(step);
  }

  void add(const Recipe::Step& step) {
    const int flags = (step.tanh ? 1 : 0) + (step.reversed ? 2 : 0) + (step.causal ? 4 : 0) +
                      (step.part == AttentionPart::log_sum_exp ? 8 : 0) +
                      (step.mean.is_known() ? 16 : 0);
    structure.insert(structure.end(),
                     {static_cast<std::int64_t>(step.op), static_cast<std::int64_t>(step.type),
                      flags, step.dim, static_cast<std::int64_t>(step.others.size()),
                      static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(step.call)),
                      static_cast<std::int64_t>(step.numbers.size())});
    for (const double number : step.numbers) {
      structure.push_back(std::bit_cast<std::int64_t>(number));
    }
    extents.insert(extents.end(), {step.order.outer, step.order.channels, step.order.inner,
                                   step.order.tables, step.pool.outer, step.pool.channels,
                                   step.pool.plane_in, step.pool.plane_out, step.rows, step.row});
    extents.insert(extents.end(), step.shifts.begin(), step.shifts.end());
    for (const Recipe::Value& other : step.others) add(other);
  }
};

/// Calls `visit` with each value in the expression, `value` first. V: Recipe::Value, const or not.
template <typename V, typename Visit>
void for_each_value(V& value, const Visit& visit) {
  visit(value);
  for (auto& part : value.parts) for_each_value(part, visit);
  if (value.viewed != nullptr) for_each_value<V>(*value.viewed, visit);
  for (auto& step : value.steps) {
    for (auto& other : step.others) for_each_value(other, visit);
  }
}

}  // namespace

const void* Recipe::Source::values_in(const c10::Storage& storage) const {
  return static_cast<const std::byte*>(storage.data()) +
         use.geometry.offset() * static_cast<std::int64_t>(c10::elementSize(use.type));
}

Recipe::Key Recipe::key() const {
  Description of;
  of.structure.reserve(usual_words);
  of.extents.reserve(usual_words);
  of.structure = {static_cast<std::int64_t>(source_count), threads,
                  static_cast<std::int64_t>(version), device.is_cpu() ? -1 : device.index()};
  of.extents = {elements};
  of.add(value);
  const std::size_t structure = of.structure.size();
  Key key{std::move(of.structure), structure};
  key.words.insert(key.words.end(), of.extents.begin(), of.extents.end());
  return key;
}

std::string Recipe::label() const {
  const Source& first = all_sources.front();
  if (first.entry != nullptr && first.entry->unsaved) return "derived from what an index picks of";
  const SiteNames* names = first.use.site->names();
  return names == nullptr ? "derived" : "derived from " + names->op + ' ' + names->operand;
}

bool Recipe::is_attention() const noexcept {
  return !value.steps.empty() && is_attention(value.steps.front().op);
}

std::size_t Recipe::constant_bytes() const noexcept {
  std::size_t bytes = 0;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined()) bytes += static_cast<std::size_t>(tensor.nbytes());
  };
  for_each_value(value, [&](const Value& each) {
    bytes += each.constant.size() * sizeof(float);
    add(each.on_device);
    for (const Step& step : each.steps) {
      bytes += (step.scale.size() + step.shift.size()) * sizeof(float);
      for (const at::Tensor* constant :
           {&step.mean.held, &step.rstd.held, &step.weight, &step.bias}) {
        add(*constant);
      }
      if (!step.shares_index) add(step.index);
    }
  });
  return bytes;
}

void Recipe::mark_arguments() noexcept {
  for (Source& source : sources()) source.is_curved = false;
  std::array<bool, most_sources> read_otherwise{};
  for_each_value(value, [&](const Value& each) {
    if (each.source < 0) return;
    const auto number = static_cast<std::size_t>(each.source);
    const bool curved = !each.steps.empty() && is_curved(each.steps.front().op);
    all_sources[number].is_curved |= curved;
    read_otherwise[number] |= !curved;
  });
  for (std::size_t i = 0; i < source_count; ++i) {
    all_sources[i].use.is_argument = all_sources[i].is_curved && !read_otherwise[i];
  }
}

void Recipe::for_each_step(const std::function<void(const Step&)>& visit) const {
  for_each_value(value, [&](const Value& each) {
    for (const Step& step : each.steps) visit(step);
  });
}

Entry::Entry() = default;
Entry::~Entry() = default;

std::size_t Entry::constant_bytes() const noexcept {
  return recipe == nullptr ? 0 : recipe->constant_bytes();
}

void Recipe::for_each(Tensors which, const std::function<void(at::Tensor&)>& visit) {
  const auto visit_if_any = [&](at::Tensor& tensor) {
    if (tensor.defined()) visit(tensor);
  };
  for_each_value(value, [&](Value& each) {
    visit_if_any(each.on_device);
    for (Step& step : each.steps) {
      for (at::Tensor* constant : {&step.weight, &step.bias, &step.index}) visit_if_any(*constant);
      if (which == Tensors::constants) continue;
      for (Statistic* statistic : {&step.mean, &step.rstd}) visit_if_any(statistic->held);
    }
  });
}

void Recipe::compute(const Arithmetic& arithmetic, std::span<const void* const> values,
                     const std::byte* mask, void* out, std::span<const SourceErrors> errors,
                     at::Tensor* other) const {
  const Threads as_then(threads);
  Run(*this, arithmetic, values, mask, errors, other).compute(value, value.steps.size(), out);
}

const RecipesUse* use_by_pair(const Use* use) {
  for (; use != nullptr; use = use->next) {
    const auto* by_recipe = use->is_recipes ? static_cast<const RecipesUse*>(use) : nullptr;
    if (by_recipe != nullptr && by_recipe->recipe->pair != nullptr) return by_recipe;
  }
  return nullptr;
}

}  // namespace cinch::hooks
