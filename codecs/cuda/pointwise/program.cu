// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/blocks/pieces.cuh"
#include "codecs/cuda/elements/nearest.cuh"
#include "codecs/cuda/pointwise/program.h"

namespace cinch::codecs::cuda {
namespace {

/// Arguments of the kernel, for fewer than 2^30 elements.
struct ProgramJob {
  Program program;
  std::uint32_t elements;
  bool vectors;  ///< eights of all tensors lie at multiples of 16 bytes
};

/// The `i`-th eight elements of a tensor, as many of them as there are.
__device__ __forceinline__ void load_item(const ProgramJob& job, int tensor, std::uint32_t i,
                                          float (&x)[kStretch]) {
  const Program::Tensor& of = job.program.tensors[tensor];
  const auto load_as = [&](auto type) {
    load_some<type.value>(of.data, i, job.elements, job.vectors, x);
  };
  if (of.type == ElementType::bfloat16) {
    load_as(std::integral_constant<ElementType, ElementType::bfloat16>());
  } else if (of.type == ElementType::float16) {
    load_as(std::integral_constant<ElementType, ElementType::float16>());
  } else {
    load_as(std::integral_constant<ElementType, ElementType::float32>());
  }
}

__device__ __forceinline__ void assign(float (&to)[kStretch], const float (&from)[kStretch]) {
#pragma unroll
  for (int j = 0; j < kStretch; ++j) to[j] = from[j];
}

template <ElementType type>
__device__ __forceinline__ void round_to(float (&x)[kStretch]) {
#pragma unroll
  for (int j = 0; j < kStretch; ++j) x[j] = value_of<type>(nearest_bits<type>(x[j]));
}

/// Calls f with each element of the value and of the operand.
template <typename F>
__device__ __forceinline__ void change(float (&value)[kStretch], const float (&operand)[kStretch],
                                       const F& f) {
#pragma unroll
  for (int j = 0; j < kStretch; ++j) value[j] = f(value[j], operand[j]);
}

/// Each operation alone, as PyTorch's kernels do them: the compiler must not join two.
__device__ __forceinline__ void apply_step(Program::Op op, float (&x)[kStretch],
                                           const float (&operand)[kStretch]) {
  using Op = Program::Op;
  switch (op) {
    case Op::load:
      return assign(x, operand);
    case Op::add:
      return change(x, operand, [](float a, float b) { return a + b; });
    case Op::subtract:
      return change(x, operand, [](float a, float b) { return a - b; });
    case Op::subtract_from:
      return change(x, operand, [](float a, float b) { return b - a; });
    case Op::multiply:
      return change(x, operand, [](float a, float b) { return a * b; });
    case Op::square:
      return change(x, operand, [](float a, float) { return a * a; });
    case Op::cube:
      return change(x, operand, [](float a, float) { return a * a * a; });
    case Op::tanh:
      return change(x, operand, [](float a, float) { return tanhf(a); });
    case Op::relu:
      return change(x, operand, [](float a, float) { return a <= 0 ? 0.0F : a; });
    case Op::save:
    case Op::round:
      return;
  }
}

template <ElementType type>
__global__ void __launch_bounds__(kRunThreads) run_program(const ProgramJob job, void* y) {
  using Operand = Program::Operand;
  const Program& program = job.program;
  take_items((job.elements + kStretch - 1) / kStretch, [&](std::int64_t item) {
    const auto i = static_cast<std::uint32_t>(item);
    // The first two tensors, before anything waits for one.
    float first[kStretch];
    float second[kStretch] = {};
    load_item(job, 0, i, first);
    if (program.tensor_count > 1) load_item(job, 1, i, second);
    float value[kStretch] = {};
    float saved[kStretch] = {};
#pragma unroll 1
    for (int s = 0; s < program.step_count; ++s) {
      const Program::Step& step = program.steps[s];
      float operand[kStretch];
      if (step.operand == Operand::tensor) {
        if (step.tensor == 0) {
          assign(operand, first);
        } else if (step.tensor == 1) {
          assign(operand, second);
        } else {
          load_item(job, step.tensor, i, operand);
        }
      } else if (step.operand == Operand::saved) {
        assign(operand, saved);
      } else {
#pragma unroll
        for (int j = 0; j < kStretch; ++j) operand[j] = step.number;
      }
      if (step.op == Program::Op::save) {
        assign(saved, value);
        continue;
      }
      apply_step(step.op, value, operand);
      if (step.rounds_to == ElementType::bfloat16) {
        round_to<ElementType::bfloat16>(value);
      } else if (step.rounds_to == ElementType::float16) {
        round_to<ElementType::float16>(value);
      }
    }
    store_some<type>(y, i, job.elements, job.vectors, value);
  });
}

}  // namespace

bool apply_program(const Program& program, std::int64_t elements, ElementType type, void* y,
                   Stream stream) noexcept {
  constexpr std::int64_t most = kMaxExtent / kStretch * kStretch - kStretch;
  for (std::int64_t first = 0; first < elements; first += most) {
    ProgramJob job;
    job.program = program;
    job.elements = static_cast<std::uint32_t>(std::min(most, elements - first));
    auto* const to =
        static_cast<std::byte*>(y) + first * static_cast<std::int64_t>(element_size(type));
    job.vectors = job.elements % kStretch == 0 && is_vector_aligned(to);
    for (int t = 0; t < program.tensor_count; ++t) {
      Program::Tensor& tensor = job.program.tensors[t];
      tensor.data = static_cast<const std::byte*>(tensor.data) +
                    first * static_cast<std::int64_t>(element_size(tensor.type));
      job.vectors = job.vectors && is_vector_aligned(tensor.data);
    }
    const bool launched = with_element(type, [&](auto is) {
      return launch(run_program<is.value>, run_blocks(stream, job.elements), kRunThreads, 0, stream,
                    job, static_cast<void*>(to));
    });
    if (!launched) return false;
  }
  return true;
}

}  // namespace cinch::codecs::cuda
