// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "codecs/cuda/library/own_streams.h"
#include "codecs/cuda/pointwise/program.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

using cuda::Program;
using Op = Program::Op;
using Operand = Program::Operand;

constexpr auto f32 = ElementType::float32;
constexpr auto bf16 = ElementType::bfloat16;
constexpr auto f16 = ElementType::float16;

Description described(ElementType type, std::size_t elements) {
  const auto n = static_cast<std::int64_t>(elements);
  return {.type = type, .layout = PlaneLayout::rows(n, n)};
}

std::vector<float> rounded(ElementType type, const std::vector<float>& values) {
  const Description what = described(type, values.size());
  return values_of(what, make_source(what, values));
}

Program::Step step(Op op, ElementType rounds_to = f32) {
  return {.op = op, .rounds_to = rounds_to};
}
Program::Step with_number(Op op, float number, ElementType rounds_to = f32) {
  return {.op = op, .operand = Operand::number, .rounds_to = rounds_to, .number = number};
}
Program::Step with_tensor(Op op, std::uint8_t tensor, ElementType rounds_to = f32) {
  return {.op = op, .operand = Operand::tensor, .rounds_to = rounds_to, .tensor = tensor};
}
Program::Step with_saved(Op op, ElementType rounds_to = f32) {
  return {.op = op, .operand = Operand::saved, .rounds_to = rounds_to};
}

class ProgramCuda : public DeviceTest {
 protected:
  /// What the program gives, from tensors of these values and types.
  std::vector<float> run(const std::vector<Program::Step>& steps,
                         const std::vector<std::vector<float>>& tensors,
                         const std::vector<ElementType>& types, ElementType type,
                         std::size_t offset = 0, cuda::Stream stream = nullptr) {
    Program program;
    std::deque<DeviceBytes> memory;
    const std::size_t n = tensors[0].size();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      Bytes bytes(offset * element_size(types[t]), std::byte{0xEE});
      const Bytes source = make_source(described(types[t], n), tensors[t]);
      bytes.insert(bytes.end(), source.begin(), source.end());
      memory.emplace_back(bytes);
      program.tensors[t] = {memory.back().data() + offset * element_size(types[t]), types[t]};
    }
    program.tensor_count = static_cast<std::int32_t>(tensors.size());
    for (const Program::Step& each : steps) program.steps[program.step_count++] = each;
    const std::size_t bytes = n * element_size(type);
    DeviceBytes out(bytes);
    EXPECT_TRUE(
        cuda::apply_program(program, static_cast<std::int64_t>(n), type, out.data(), stream));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return values_of(described(type, n), out.host(bytes));
  }

  std::vector<float> drawn(std::size_t n) {
    return normal_values(random_, static_cast<std::int64_t>(n));
  }

  Random random_{86};
};

// transformers' NewGELUActivation under autocast: from a float32 copy of x, as mul's bfloat16 and
// float32 operands.
TEST_F(ProgramCuda, GeluByHand) {
  for (const std::size_t n : {1, 8, 77, 4096}) {
    const std::vector<float> x = rounded(bf16, drawn(n));
    std::vector<float> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      const float half = rounded(bf16, {x[i] * 0.5F})[0];
      const float cube = x[i] * x[i] * x[i];
      const float inner = (x[i] + cube * 0.044715F) * 0.7978846F;
      expected[i] = half * (std::tanh(inner) + 1.0F);
    }
    const std::vector<Program::Step> steps = {
        with_tensor(Op::load, 0), with_number(Op::multiply, 0.5F, bf16),
        step(Op::save),           with_tensor(Op::load, 0),
        step(Op::cube),           with_number(Op::multiply, 0.044715F),
        with_tensor(Op::add, 0),  with_number(Op::multiply, 0.7978846F),
        step(Op::tanh),           with_number(Op::add, 1.0F),
        with_saved(Op::multiply), step(Op::round, bf16),
    };
    for (const ElementType of : {f32, bf16}) {
      for (const std::size_t offset : {0, 1}) {
        const std::vector<float> y = run(steps, {x}, {of}, bf16, offset);
#ifdef CINCH_CUDA_ON_HOST
        EXPECT_EQ(y, rounded(bf16, expected));
#else
        for (std::size_t i = 0; i < n; ++i) {  // tanhf of another library
          EXPECT_NEAR(y[i], expected[i], std::fabs(expected[i]) / 128 + 1e-6F);
        }
#endif
      }
    }
  }
}

TEST_F(ProgramCuda, OperandsKeepTheirSides) {
  const std::vector<float> a = drawn(40);
  const std::vector<float> b = rounded(f16, drawn(40));
  const std::vector<float> c = rounded(bf16, drawn(40));
  std::vector<float> expected(40);
  for (std::size_t i = 0; i < 40; ++i) {
    const float difference = rounded(f16, {b[i] - a[i]})[0];
    const float y = (difference - c[i]) * difference;
    expected[i] = y * y <= 0.5F ? 0.0F : y * y - 0.5F;
  }
  const std::vector<Program::Step> steps = {
      with_tensor(Op::load, 0),
      with_tensor(Op::subtract_from, 1, f16),
      step(Op::save),
      with_tensor(Op::subtract, 2),
      with_saved(Op::multiply),
      step(Op::square),
      with_number(Op::subtract, 0.5F),
      step(Op::relu),
  };
  EXPECT_EQ(run(steps, {a, b, c}, {f32, f16, bf16}, f32), expected);
}

TEST_F(ProgramCuda, ReluKeepsNaN) {
  const std::vector<float> y =
      run({with_tensor(Op::load, 0), step(Op::relu)}, {{std::nanf(""), -0.0F, -1, 2}}, {f32}, f32);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(std::signbit(y[1]), false);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 2);
}

TEST_F(ProgramCuda, TakesNothingForNothing) {
  EXPECT_TRUE(cuda::apply_program({}, 0, f32, nullptr, nullptr));
}

#ifdef CINCH_CUDA_ON_HOST
TEST_F(ProgramCuda, TakesFewBlocksInStreamsOfItsOwn) {
  auto* const stream = reinterpret_cast<cuda::Stream>(3400);  // NOLINT(performance-no-int-to-ptr)
  cuda::OwnStreams::add(stream, 1);
  cuda_on_host::kernels() = {};
  const std::vector<float> x = drawn(50000);
  EXPECT_EQ(run({with_tensor(Op::load, 0)}, {x}, {f32}, f32, 0, stream), x);
  EXPECT_LE(cuda_on_host::kernels().most_threads, 1024U);
}
#endif

}  // namespace
}  // namespace cinch::codecs::test
