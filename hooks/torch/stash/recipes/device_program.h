// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>

#include "codecs/cuda/pointwise/program.h"
#include "hooks/torch/stash/recipes/recipe.h"

namespace cinch::hooks {

/// Makes one program for a CUDA device of consecutive steps of a value: those that compute each
/// element from the ones at the same place in memory, by operators that round as a kernel of ours
/// does. Operands of several steps may be part of it.
class DeviceProgram {
 public:
  /// Gives the tensor of an operand, which the program is to read, and which must live until it was
  /// enqueued. The first of the two: after no step of its own.
  struct Operands {
    std::function<at::Tensor(const Recipe::Value&)> start;
    std::function<at::Tensor(const Recipe::Value&)> all;
  };

  /// Whether a program of these steps, or of the first of them, would have two operators or more.
  static bool pays(std::span<const Recipe::Step> steps);

  /// @param like The layout of the value's steps
  DeviceProgram(const Layout& like, Operands operands)
      : like_(like), operands_(std::move(operands)) {}

  /// Begins with a tensor. @return false where programs can't read it
  bool begin(const at::Tensor& from);

  /// Adds a step. @return false, and nothing is added, where it is not for programs
  bool add(const Recipe::Step& step);

  const codecs::cuda::Program& get() const noexcept { return program_; }

 private:
  using Program = codecs::cuda::Program;

  template <typename Add>
  bool add_all_or_nothing(const Add& add);
  bool add_step(const Recipe::Step& step);
  bool add_binary(const Recipe::Step& step);
  bool add_nested(const Recipe::Value& value);
  bool push(Program::Step step);
  std::optional<std::uint8_t> index_of(const at::Tensor& tensor);
  bool is_alike(const Layout& layout) const;

  const Layout& like_;
  const Operands operands_;
  Program program_;
  bool is_nested_ = false;  // an operand is being added
};

}  // namespace cinch::hooks
