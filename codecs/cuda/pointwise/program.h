// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/codec.h"

/// Chains of pointwise operators in one pass over memory, such as a GELU that is written by hand.
namespace cinch::codecs::cuda {

/// What is computed for each element. There are a value and a saved value, both float32. Each step
/// replaces the value, and then rounds it as PyTorch does after each operator.
struct Program {
  enum class Op : std::uint8_t {
    load,           ///< the operand
    save,           ///< replaces the saved value instead, by the value
    add,            ///< this and the next three: of the value and the operand
    subtract,       ///< value - operand
    subtract_from,  ///< operand - value
    multiply,
    square,
    cube,
    tanh,
    relu,
    round,
  };
  enum class Operand : std::uint8_t { none, number, tensor, saved };

  struct Step {
    Op op = Op::round;
    Operand operand = Operand::none;
    ElementType rounds_to = ElementType::float32;
    std::uint8_t tensor = 0;  ///< its index
    float number = 0;
  };
  /// Of float32, bfloat16 or float16, in device memory, aligned to its elements.
  struct Tensor {
    const void* data = nullptr;
    ElementType type = ElementType::float32;
  };

  static constexpr int most_steps = 24;
  static constexpr int most_tensors = 6;
  Step steps[most_steps];
  Tensor tensors[most_tensors];
  std::int32_t step_count = 0;
  std::int32_t tensor_count = 0;
};

/// Enqueues the program for `elements` elements: the k-th one of `y` is computed from the k-th ones
/// of the tensors. @param type Of y: float32, bfloat16 or float16
/// @pre y is device memory, aligned to its elements; it may be one of the tensors, if of its type.
///   The first step is a load
/// @return false when a kernel could not be launched
bool apply_program(const Program& program, std::int64_t elements, ElementType type, void* y,
                   Stream stream) noexcept;

}  // namespace cinch::codecs::cuda
