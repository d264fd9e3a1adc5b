// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognising/recipe_maker.h"

#include <utility>

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>

#include "hooks/torch/autograd/held/saved_inputs.h"
#include "hooks/torch/autograd/nodes/functions.h"
#include "hooks/torch/autograd/nodes/members.h"
#include "hooks/torch/autograd/nodes/node_lock.h"
#include "hooks/torch/autograd/nodes/node_views.h"
#include "hooks/torch/autograd/nodes/unsaved_numbers.h"
#include "hooks/torch/autograd/recognising/node_steps.h"
#include "hooks/torch/autograd/recognising/saved_constants.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using saved_constants::has_data;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

// Most operators of one recipe.
constexpr int most_steps = 12;

}  // namespace

RecipeMaker::RecipeMaker(Layout layout, const at::Tensor& actual, Site& site, Derived derived)
    : layout_(std::move(layout)),
      actual_(actual),
      site_(site),
      derived_(derived),
      recipe_(stash().derivation().new_recipe()),
      sources_(*recipe_) {
  recipe_->elements = layout_.elements();
  recipe_->type = actual.scalar_type();
  recipe_->device = actual.device();
  recipe_->threads = is_on_device() ? 0 : at::get_num_threads();
}

bool RecipeMaker::make(Node& node, std::uint32_t output) {
  last_ = &node;
  Value& made = recipe_->value;
  if (output != 0) return false;
  if (kind_of(node) >= NodeKind::view) {
    // A view that autograd does not know as one, as reshape() makes of the copy that it makes.
    if (!find_viewed(node, output, made) || made.viewed == nullptr || !made.steps.empty()) {
      return false;
    }
    if (!is_contiguous(layout_) || !is_contiguous(made.viewed->layout())) return false;
    made = std::move(*std::unique_ptr<Value>(std::move(made.viewed)));
  } else if (!compute(node, layout_, made) || made.layout() != layout_) {
    return false;
  }
  return recipe_->source_count != 0 && made.is_computed() && made.type() == recipe_->type &&
         made.layout().elements() == recipe_->elements;
}

OfferedRecipe RecipeMaker::take(std::uint32_t version) {
  recipe_->version = version;
  const bool serves = recipe_->depth <= stash().settings().derive.depth &&
                      stash().derivation().proves(*recipe_, site_, actual_);
  if (!serves) return nullptr;
  stash().derivation().tell_sources(*recipe_);
  return std::move(recipe_);
}

/// Builds the first output of `node` from what `node`, and the nodes before it, saved.
bool RecipeMaker::compute(Node& node, const Layout& want, Value& to) {
  if (++steps_ > most_steps || !has_recipes(type_of(node))) return false;
  switch (kind_of(node)) {
    case NodeKind::relu:
      return find_alike(node.next_edge(0), want, to) &&
             extend(to, step_of(Operator::relu, node), want);
    case NodeKind::copy:
      return make_copy(node, want, to);
    case NodeKind::add:
      return make_sum(node, Operator::add, static_cast<generated::AddBackward0&>(node).alpha, want,
                      to);
    case NodeKind::sub:
      return make_sum(node, Operator::sub, static_cast<generated::SubBackward0&>(node).alpha, want,
                      to);
    case NodeKind::subtract_from_number:
      return static_cast<generated::RsubBackward1&>(node).alpha.equal(1) &&
             make_with_number(node, Operator::sub, unsaved_numbers::find(node), true, want, to);
    case NodeKind::mul_number: {
      const double number = static_cast<generated::MulBackward1&>(node).other.toDouble();
      return make_with_number(node, Operator::mul, number, false, want, to);
    }
    case NodeKind::div_number: {
      const double number = static_cast<generated::DivBackward1&>(node).other.toDouble();
      return make_with_number(node, Operator::div, number, false, want, to);
    }
    case NodeKind::mul: {
      auto& mul = static_cast<generated::MulBackward0&>(node);
      return make_pair(node, Operator::mul, &mul.self_, &mul.other_, want, to);
    }
    case NodeKind::div: {
      auto& div = static_cast<generated::DivBackward0&>(node);
      return make_pair(node, Operator::div, &div.self_, &div.other_, want, to);
    }
    case NodeKind::prelu: {
      auto& prelu = static_cast<generated::PreluKernelBackward0&>(node);
      return make_pair(node, Operator::prelu, &prelu.self_, &prelu.weight_, want, to);
    }
    case NodeKind::addcmul:
      return make_addcmul(static_cast<generated::AddcmulBackward0&>(node), want, to);
    case NodeKind::sigmoid_backward: {
      auto& of = static_cast<generated::SigmoidBackwardBackward0&>(node);
      return make_pair(node, Operator::sigmoid_backward, &of.grad_output_, &of.output_, want, to);
    }
    case NodeKind::tanh_backward: {
      auto& of = static_cast<generated::TanhBackwardBackward0&>(node);
      return make_pair(node, Operator::tanh_backward, &of.grad_output_, &of.output_, want, to);
    }
    case NodeKind::max_pool: {
      auto& pool = static_cast<generated::MaxPool2DWithIndicesBackward0&>(node);
      return make_max_pool(node, pool.self_, pool.result1_, want, to);
    }
    case NodeKind::max_pool_3d: {
      auto& pool = static_cast<generated::MaxPool3DWithIndicesBackward0&>(node);
      return make_max_pool(node, pool.self_, pool.result1_, want, to);
    }
    case NodeKind::roll:
      return make_rolled(static_cast<generated::RollBackward0&>(node), want, to);
    case NodeKind::index_select:
    case NodeKind::index:
      return make_gathered(node, want, to);
    case NodeKind::attention:
    case NodeKind::flash_attention:
    case NodeKind::efficient_attention:
    case NodeKind::cudnn_attention:
      return make_attention(node, AttentionPart::output, want, to);
    case NodeKind::dropout:
      return make_dropout(static_cast<generated::NativeDropoutBackward0&>(node), want, to);
    case NodeKind::cat:
      return make_cat(static_cast<generated::CatBackward0&>(node), want, to);
    case NodeKind::stack:
      return make_stack(static_cast<generated::StackBackward0&>(node), want, to);
    case NodeKind::layer_norm:
    case NodeKind::rms_norm:
    case NodeKind::batch_norm:
    case NodeKind::cudnn_batch_norm:
    case NodeKind::group_norm:
      return make_norm(node, want, to);
    case NodeKind::function:
      return make_function(node, want, to);
    default:
      return false;
  }
}

/// Builds the value that `edge` leads to: a source if some node saved the value, else a view of
/// what is built in the same way, else computed.
bool RecipeMaker::find(const Edge& edge, const Layout& want, Value& to) {
  if (!edge.is_valid()) return false;
  Node& node = *edge.function;
  if (edge.input_nr == 0) {
    if (SavedVariable* result = result_of(node)) {
      const NodeLock lock(node);
      if (lock && sources_.hold_value(*result, to)) return true;
    }
  }
  const Mark before = mark();
  bool is_derived = false;
  bool has_changed = false;
  const auto hold_saved = [&] {
    bool is_held = false;
    saved_inputs::find(node, edge.input_nr, [&](const HeldTensor& held) {
      has_changed = !held.is_as_saved();
      // A tensor that was changed before it was saved may have had other values when used here.
      is_held = held.saved_version() == 0 && sources_.hold_value(held, to);
      is_derived = is_held && held.entry()->recipe != nullptr;
    });
    return is_held || (!has_changed && hold_other_form(edge, want, to, is_derived));
  };
  const auto make = [&] {
    return find_viewed(node, edge.input_nr, to) || (edge.input_nr == 0 && compute(node, want, to));
  };
  if (!hold_saved()) {
    go_back(before, to);
    return !has_changed && make();
  }
  if (!is_derived || derived_ == Derived::held) return true;
  // A source that is derived is better computed within this recipe, which is less deep then.
  go_back(before, to);
  if (make()) return has_computed_derived_ = true;
  go_back(before, to);
  return hold_saved();
}

/// Builds the value that `edge` leads to where only another form of it was saved. A conversion to a
/// wider type, as autocast makes them, loses nothing; of a view the whole storage is held.
/// @param is_derived Set to whether the other form is derived itself
bool RecipeMaker::hold_other_form(const Edge& edge, const Layout& want, Value& to,
                                  bool& is_derived) {
  bool is_held = false;
  bool is_wider = false;
  if (edge.input_nr != 0) return false;
  saved_inputs::find_other_form(
      *edge.function, want, [&](const HeldTensor& held, saved_inputs::Form form) {
        is_wider = form == saved_inputs::Form::widened;
        if (held.saved_version() != 0 || !held.is_as_saved()) return;
        is_held = is_wider ? sources_.hold_value(held, to) : sources_.hold_whole(held, want, to);
        is_derived = is_held && held.entry()->recipe != nullptr;
      });
  if (!is_held || to.layout().sizes != want.sizes) return false;
  return !is_wider || extend(to, step_of(Operator::copy, *edge.function), to.layout());
}

RecipeMaker::Mark RecipeMaker::mark() const {
  return {recipe_->source_count, recipe_->depth, recipe_->is_near, recipe_->needs_exact_sources,
          steps_};
}

void RecipeMaker::go_back(const Mark& to, Value& begun) {
  stash().derivation().release_sources(*recipe_, to.source_count);
  recipe_->depth = to.depth;
  recipe_->is_near = to.is_near;
  recipe_->needs_exact_sources = to.needs_exact_sources;
  steps_ = to.steps;
  begun = {};
}

/// Builds the output `output` of a node that makes views.
bool RecipeMaker::find_viewed(Node& node, std::uint32_t output, Value& to) {
  if (kind_of(node) < NodeKind::view) return false;
  if (!find_of_any_sizes(node.next_edge(0), contiguous({}), to)) return false;
  auto view = view_by(node, output, to.layout());
  if (view) take_view(*std::move(view), to);
  return view.has_value();
}

/// The same as find(), for a value of sizes of its own. If it is computed, its dimensions are
/// nested as `like`'s are.
bool RecipeMaker::find_of_any_sizes(const Edge& edge, const Layout& like, Value& to) {
  if (!edge.is_valid()) return false;
  const auto sizes = output_sizes(*edge.function, edge.input_nr);
  return sizes && find(edge, dense_like(*sizes, like), to);
}

/// The same as find(), but only a value of this layout.
bool RecipeMaker::find_alike(const Edge& edge, const Layout& want, Value& to) {
  return find(edge, want, to) && to.layout() == want;
}

/// Builds an operator of the value that the node saved as its operand, or else of the one that the
/// node's edge leads to. If the saved one is derived, the edge's is tried first.
bool RecipeMaker::make_function(Node& node, const Layout& want, Value& to) {
  const Function& function = function_of(node);
  Step made = step_of(Operator::function, node);
  made.resizes = function.resizes;
  SavedVariable* operand = nullptr;
  const auto hold_saved = [&] {
    return function.resizes ? sources_.hold_value(*operand, to)
                            : sources_.hold_of_sizes(*operand, want.sizes, to);
  };
  bool is_derived = false;
  bool found = false;
  {
    const NodeLock lock(node);
    if (!lock || !function.describe(node, made)) return false;
    if (function.operand != nullptr) operand = function.operand(node);
    const HeldTensor* held = operand == nullptr ? nullptr : held_by_stash(*operand);
    is_derived = held != nullptr && held->entry()->recipe != nullptr &&
                 derived_ == Derived::computed && !made.magnifies;
    found = held != nullptr && !is_derived && hold_saved();
  }
  const Mark before = mark();
  if (!found) {
    found = function.resizes ? find_of_any_sizes(node.next_edge(0), want, to)
                             : find(node.next_edge(0), want, to) && to.layout().sizes == want.sizes;
  }
  if (found && is_derived) has_computed_derived_ = true;
  if (!found && is_derived) {
    go_back(before, to);
    const NodeLock lock(node);
    found = lock && hold_saved();
  }
  return found && to.type() == made.type && extend(to, std::move(made), want);
}

// Builds an operator of two operands that broadcast. Each is what the node saved in `left` or
// `right` (null if it saves no such operand), or else the value that the node's edge leads to.
bool RecipeMaker::make_pair(Node& node, Operator op, SavedVariable* left, SavedVariable* right,
                            const Layout& want, Value& to) {
  Value first;
  Value second;
  if (!make_operand(node, 0, left, want, first) || !make_operand(node, 1, right, want, second)) {
    return false;
  }
  const c10::IntArrayRef a = first.layout().sizes;
  const c10::IntArrayRef b = second.layout().sizes;
  if (!at::are_expandable(a, b) || at::infer_size_dimvector(a, b) != want.sizes) return false;
  const bool reversed = !first.is_computed() && second.is_computed();
  if (reversed) std::swap(first, second);
  Step made = step_of(op, node);
  made.others.push_back(std::move(second));
  made.reversed = reversed;
  to = std::move(first);
  return extend(to, std::move(made), want);
}

bool RecipeMaker::make_operand(Node& node, std::uint32_t edge, SavedVariable* saved,
                               const Layout& want, Value& to) {
  const auto hold_saved = [&] {
    return sources_.hold_value(*saved, to) || sources_.copy_constant(*saved, type_of(node), to);
  };
  bool is_saved = false;
  bool is_derived = false;
  if (saved != nullptr) {
    const NodeLock lock(node);
    if (!lock) return false;
    is_saved = has_data(*saved);
    const HeldTensor* held = is_saved ? held_by_stash(*saved) : nullptr;
    is_derived = held != nullptr && held->entry()->recipe != nullptr;
    if (is_saved && (!is_derived || derived_ == Derived::held)) return hold_saved();
  }
  const Mark before = mark();
  if (edge < node.num_outputs() && find_of_any_sizes(node.next_edge(edge), want, to)) {
    has_computed_derived_ |= is_derived;
    return true;
  }
  if (!is_saved) return false;
  go_back(before, to);
  const NodeLock lock(node);
  return lock && hold_saved();
}

/// Builds a sum or difference. The second operand may be a Python number: it has no gradient then.
bool RecipeMaker::make_sum(Node& node, Operator op, const at::Scalar& alpha, const Layout& want,
                           Value& to) {
  const bool is_plain = alpha.equal(1);
  if (!node.next_edge(1).is_valid()) {
    return is_plain && make_with_number(node, op, unsaved_numbers::find(node), false, want, to);
  }
  if (!make_pair(node, op, nullptr, nullptr, want, to)) return false;
  if (!is_plain) to.steps.back().numbers = {alpha.toDouble()};
  return true;
}

/// Builds an operator of a value and a Python number.
bool RecipeMaker::make_with_number(Node& node, Operator op, std::optional<double> number,
                                   bool number_first, const Layout& want, Value& to) {
  if (!number || !find_alike(node.next_edge(0), want, to)) return false;
  if (to.type() != type_of(node)) return false;
  Step made = step_of(op, node);
  made.reversed = number_first;
  return sources_.take_number(*number, made.type, made.others.emplace_back()) &&
         extend(to, std::move(made), want);
}

bool RecipeMaker::make_addcmul(generated::AddcmulBackward0& node, const Layout& want, Value& to) {
  Step made = step_of(Operator::addcmul, node);
  made.numbers = {node.value.toDouble()};
  made.others.resize(2);
  return find_alike(node.next_edge(0), want, to) &&
         make_operand(node, 1, &node.tensor1_, want, made.others[0]) &&
         make_operand(node, 2, &node.tensor2_, want, made.others[1]) &&
         extend(to, std::move(made), want);
}

/// Sees the value, as it is after its steps, through `view`.
void RecipeMaker::take_view(View view, Value& to) {
  if (to.is_computed()) {
    Value viewed;
    viewed.start_type = to.type();
    viewed.viewed = std::make_unique<Value>(std::move(to));
    to = std::move(viewed);
  }
  to.start = std::move(view.layout);
  to.offset += view.offset;
}

bool RecipeMaker::extend(Value& to, std::optional<Step> step, const Layout& want) {
  if (!step) return false;
  if (step->type == at::kDouble && Recipe::computes_in_floats(step->op)) return false;
  recipe_->is_near |= !is_on_device() && step->rounds_by_threads;
  recipe_->needs_exact_sources |= step->magnifies;
  // The steps of one value have one layout: a step of another one sees the value so far as a view.
  if (to.is_computed() && to.layout() != want) take_view({to.layout()}, to);
  to.result = want;
  to.steps.push_back(*std::move(step));
  return true;
}

}  // namespace cinch::hooks
