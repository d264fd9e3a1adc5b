// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/recipes/device_program.h"

#include <algorithm>
#include <vector>

#include "hooks/torch/stash/saved/verdict.h"

namespace cinch::hooks {
namespace {

using codecs::cuda::Program;
using Op = Program::Op;
using Operand = Program::Operand;

bool is_for_programs(c10::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

/// The operators of a value alone.
std::optional<Op> unary(const Recipe::Step& step) {
  constexpr double two = 2;
  constexpr double three = 3;
  switch (step.op) {
    case Recipe::Operator::tanh:
      return Op::tanh;
    case Recipe::Operator::relu:
      return Op::relu;
    case Recipe::Operator::copy:
      return Op::round;
    case Recipe::Operator::pow:
      if (step.numbers[0] == two) return Op::square;
      return step.numbers[0] == three ? std::optional(Op::cube) : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// Those of two values.
std::optional<Op> binary(const Recipe::Step& step) {
  if (!step.numbers.empty()) return std::nullopt;  // alpha
  switch (step.op) {
    case Recipe::Operator::add:
      return Op::add;
    case Recipe::Operator::sub:
      return step.reversed ? Op::subtract_from : Op::subtract;
    case Recipe::Operator::mul:
      return Op::multiply;
    default:
      return std::nullopt;
  }
}

/// A number of the program's, which PyTorch has on the host.
bool is_number(const Recipe::Value& value) {
  return value.on_device.defined() && value.on_device.is_cpu() && value.on_device.dim() == 0 &&
         value.steps.empty();
}

bool is_for_programs(const Recipe::Step& step) {
  return is_for_programs(step.type) && (unary(step) || binary(step));
}

}  // namespace

bool DeviceProgram::pays(std::span<const Recipe::Step> steps) {
  if (steps.empty() || !is_for_programs(steps[0])) return false;
  if (steps.size() > 1 && is_for_programs(steps[1])) return true;
  const std::vector<Recipe::Value>& others = steps[0].others;
  const auto takes = [](const Recipe::Step& step) { return is_for_programs(step); };
  return !others.empty() && !others[0].steps.empty() && std::ranges::all_of(others[0].steps, takes);
}

bool DeviceProgram::begin(const at::Tensor& from) {
  const auto index = index_of(from);
  return index && push({.op = Op::load, .operand = Operand::tensor, .tensor = *index});
}

bool DeviceProgram::add(const Recipe::Step& step) {
  return add_all_or_nothing([&] { return add_step(step); });
}

/// Where `add` gives false, what it added is taken back.
template <typename Add>
bool DeviceProgram::add_all_or_nothing(const Add& add) {
  const std::int32_t steps = program_.step_count;
  const std::int32_t tensors = program_.tensor_count;
  if (add()) return true;
  program_.step_count = steps;
  program_.tensor_count = tensors;
  return false;
}

bool DeviceProgram::add_step(const Recipe::Step& step) {
  if (!is_for_programs(step)) return false;
  if (const auto op = unary(step)) {
    return push({.op = *op, .rounds_to = element_type(step.type)});
  }
  return add_binary(step);
}

bool DeviceProgram::add_binary(const Recipe::Step& step) {
  Program::Step made = {.op = *binary(step), .rounds_to = element_type(step.type)};
  const Recipe::Value& other = step.others[0];
  if (is_number(other)) {
    made.operand = Operand::number;
    made.number = other.on_device.item<float>();
    return push(made);
  }
  if (other.is_computed() && add_all_or_nothing([&] { return add_nested(other); })) {
    made.operand = Operand::saved;
    // The value is now the operand, and the saved one what it was.
    if (made.op == Op::subtract) {
      made.op = Op::subtract_from;
    } else if (made.op == Op::subtract_from) {
      made.op = Op::subtract;
    }
    return push(made);
  }
  if (!is_alike(other.layout()) || !is_for_programs(other.type())) return false;
  const auto index = index_of(operands_.all(other));
  made.operand = Operand::tensor;
  if (index) made.tensor = *index;
  return index && push(made);
}

/// Saves the value and computes an operand. @return false where it is no program; some steps may
/// have been added
bool DeviceProgram::add_nested(const Recipe::Value& value) {
  if (is_nested_ || !value.parts.empty() || !is_alike(value.result)) return false;
  if (!push({.op = Op::save})) return false;
  is_nested_ = true;
  const bool added =
      begin(operands_.start(value)) &&
      std::ranges::all_of(value.steps, [&](const Recipe::Step& step) { return add_step(step); });
  is_nested_ = false;
  return added;
}

bool DeviceProgram::push(Program::Step step) {
  if (program_.step_count == Program::most_steps) return false;
  program_.steps[program_.step_count++] = step;
  return true;
}

/// Where the program has the tensor.
std::optional<std::uint8_t> DeviceProgram::index_of(const at::Tensor& tensor) {
  if (!is_for_programs(tensor.scalar_type()) || !is_alike(layout_of(tensor))) return std::nullopt;
  const Program::Tensor wanted = {tensor.const_data_ptr(), element_type(tensor.scalar_type())};
  std::int32_t t = 0;
  while (t < program_.tensor_count &&
         (program_.tensors[t].data != wanted.data || program_.tensors[t].type != wanted.type)) {
    ++t;
  }
  if (t == Program::most_tensors) return std::nullopt;
  program_.tensors[t] = wanted;
  program_.tensor_count = std::max(program_.tensor_count, t + 1);
  return static_cast<std::uint8_t>(t);
}

/// Whether elements at the same place in memory belong together.
bool DeviceProgram::is_alike(const Layout& layout) const {
  return layout == like_ ||
         (layout.elements() == like_.elements() && is_contiguous(layout) && is_contiguous(like_));
}

}  // namespace cinch::hooks
