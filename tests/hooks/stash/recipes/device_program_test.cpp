// SPDX-License-Identifier: Apache-2.0
//
// How a recipe's steps become a program. What programs compute:
// tests/codecs/cuda/program_cuda_test.cpp.
#include "hooks/torch/stash/recipes/device_program.h"

#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

using codecs::ElementType;
using codecs::cuda::Program;
using Op = Program::Op;
using Operand = Program::Operand;
using Operator = Recipe::Operator;

class DeviceProgramTest : public testing::Test {
 protected:
  Recipe::Step step(Operator op, c10::ScalarType type = at::kFloat) const {
    Recipe::Step made;
    made.op = op;
    made.type = type;
    return made;
  }
  Recipe::Step with_number(Operator op, double number, c10::ScalarType type = at::kFloat) const {
    Recipe::Step made = step(op, type);
    Recipe::Value& other = made.others.emplace_back();
    other.on_device = at::scalar_tensor(number, at::kDouble);
    other.start_type = at::kDouble;
    return made;
  }
  Recipe::Step with_value(Operator op, Recipe::Value other) const {
    Recipe::Step made = step(op);
    made.others.push_back(std::move(other));
    return made;
  }
  template <typename... Steps>
  static std::vector<Recipe::Step> all(Steps... each) {
    std::vector<Recipe::Step> steps;
    (steps.push_back(std::move(each)), ...);
    return steps;
  }
  /// The value of a tensor, before any step.
  Recipe::Value value_of(const at::Tensor& tensor) {
    Recipe::Value value;
    value.source = static_cast<int>(tensors.size());
    value.start = value.result = layout_of(tensor);
    value.start_type = tensor.scalar_type();
    tensors.push_back(tensor);
    return value;
  }
  DeviceProgram begun() {
    const auto tensor_of = [this](const Recipe::Value& value) {
      ++read;
      return tensors[static_cast<std::size_t>(value.source)];
    };
    DeviceProgram program(layout, {tensor_of, tensor_of});
    EXPECT_TRUE(program.begin(x));
    return program;
  }

  const at::Tensor x = at::randn({4, 6});
  const Layout layout = layout_of(x);
  std::vector<at::Tensor> tensors;
  int read = 0;
};

TEST_F(DeviceProgramTest, NumbersAreRoundedToFloat32) {
  DeviceProgram program = begun();
  ASSERT_TRUE(program.add(with_number(Operator::mul, 0.1, at::kBFloat16)));
  ASSERT_EQ(program.get().step_count, 2);
  const Program::Step& made = program.get().steps[1];
  EXPECT_EQ(made.op, Op::multiply);
  EXPECT_EQ(made.operand, Operand::number);
  EXPECT_EQ(made.number, 0.1F);
  EXPECT_EQ(made.rounds_to, ElementType::bfloat16);
}

TEST_F(DeviceProgramTest, ATensorIsReadOnce) {
  DeviceProgram program = begun();
  ASSERT_TRUE(program.add(with_value(Operator::add, value_of(x))));
  ASSERT_TRUE(program.add(with_value(Operator::mul, value_of(x.to(at::kHalf)))));
  EXPECT_EQ(program.get().tensor_count, 2);
  EXPECT_EQ(program.get().steps[1].tensor, 0);
  EXPECT_EQ(program.get().steps[2].tensor, 1);
  EXPECT_EQ(program.get().tensors[1].type, ElementType::float16);
}

TEST_F(DeviceProgramTest, AComputedOperandIsAPartOfTheProgram) {
  DeviceProgram program = begun();
  Recipe::Value other = value_of(x);
  other.steps.push_back(step(Operator::tanh));
  ASSERT_TRUE(program.add(with_value(Operator::sub, std::move(other))));
  const Program& made = program.get();
  ASSERT_EQ(made.step_count, 5);
  EXPECT_EQ(made.steps[1].op, Op::save);
  EXPECT_EQ(made.steps[2].op, Op::load);
  EXPECT_EQ(made.steps[3].op, Op::tanh);
  // The saved value is the left one.
  EXPECT_EQ(made.steps[4].op, Op::subtract_from);
  EXPECT_EQ(made.steps[4].operand, Operand::saved);
}

TEST_F(DeviceProgramTest, AnOperandOfAnOperandIsComputedApart) {
  DeviceProgram program = begun();
  Recipe::Value inner = value_of(x);
  inner.steps.push_back(step(Operator::tanh));
  Recipe::Value other = value_of(x);
  other.steps.push_back(with_value(Operator::mul, std::move(inner)));
  ASSERT_TRUE(program.add(with_value(Operator::add, std::move(other))));
  EXPECT_EQ(program.get().step_count, 5);  // load, save, load, multiply, add
  EXPECT_EQ(program.get().steps[3].operand, Operand::tensor);
}

TEST_F(DeviceProgramTest, WhatIsNotForProgramsAddsNothing) {
  DeviceProgram program = begun();
  Recipe::Step square = step(Operator::pow);
  square.numbers = {2};
  ASSERT_TRUE(program.add(square));
  Recipe::Step root = step(Operator::pow);
  root.numbers = {0.5};
  const at::Tensor row = at::randn({6});
  for (const Recipe::Step& each :
       all(std::move(root), step(Operator::silu), step(Operator::tanh, at::kDouble),
           with_value(Operator::add, value_of(row)), with_value(Operator::div, value_of(x)),
           with_value(Operator::add, value_of(at::zeros({4, 6}, at::kLong))))) {
    EXPECT_FALSE(program.add(each)) << static_cast<int>(each.op);
    EXPECT_EQ(program.get().step_count, 2);
  }
  EXPECT_EQ(read, 0);
}

TEST_F(DeviceProgramTest, AnotherShapeServesWhereBothAreContiguous) {
  DeviceProgram program = begun();
  EXPECT_TRUE(program.add(with_value(Operator::add, value_of(x.view({24})))));
  EXPECT_FALSE(program.add(with_value(Operator::add, value_of(at::randn({6, 4}).t()))));
}

TEST_F(DeviceProgramTest, ItsStepsAreBounded) {
  DeviceProgram program = begun();
  for (int i = 1; i < Program::most_steps; ++i) {
    ASSERT_TRUE(program.add(with_number(Operator::add, i)));
  }
  EXPECT_FALSE(program.add(with_number(Operator::add, 0)));
}

TEST_F(DeviceProgramTest, OneOperatorDoesNotPay) {
  const auto one = all(step(Operator::tanh));
  const auto two = all(step(Operator::tanh), with_number(Operator::add, 1));
  const auto other = all(step(Operator::tanh), step(Operator::silu));
  Recipe::Value computed = value_of(x);
  computed.steps.push_back(step(Operator::tanh));
  const auto nested = all(with_value(Operator::mul, std::move(computed)));
  EXPECT_FALSE(DeviceProgram::pays({}));
  EXPECT_FALSE(DeviceProgram::pays(one));
  EXPECT_TRUE(DeviceProgram::pays(two));
  EXPECT_FALSE(DeviceProgram::pays(other));
  EXPECT_TRUE(DeviceProgram::pays(nested));
}

}  // namespace
}  // namespace cinch::hooks
