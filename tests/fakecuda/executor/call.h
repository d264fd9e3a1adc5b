// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include "alias.h"

namespace fakecuda::executor {

/// What a call without a kernel for the CPU does instead: takes the arguments from the stack (CPU
/// tensors) and leaves the results there.
using Substitute = void (*)(std::vector<at::IValue>& stack);

/// One call of an operator on CUDA tensors, to be run on aliases.
///
/// Arguments that are written keep their identity as results; other results are new.
class Call {
 public:
  /// @param arguments as the operator was called with
  Call(const c10::OperatorHandle& op, std::vector<at::IValue> arguments, Substitute substitute);

  /// Of the first CUDA tensor, or of the argument that names one.
  c10::Device device() const { return device_; }
  const std::vector<fakecuda_range>& ranges() const { return aliases_.ranges(); }

  /// Everything of the arguments that a result's geometry may depend on.
  std::string key() const;

  /// Runs it on the CPU, or on the meta device where nothing is computed. @return the results as
  /// made there
  std::vector<at::IValue> run() const;

  /// The results for the caller: arguments where they are that, and new CUDA tensors with the
  /// results' contents. Arguments that were resized on the CPU are resized.
  std::vector<at::IValue> delivered(const std::vector<at::IValue>& results) const;

  /// The argument that a result is, or -1.
  int argument_of_result(std::size_t result) const;
  bool result_is_list(std::size_t result) const;
  const at::IValue& argument(int i) const { return originals_[static_cast<std::size_t>(i)]; }

  /// Whether some argument that is written was resized by `run`.
  bool resized() const;

  /// Gives up the CUDA tensors, and takes CPU arguments by value: from now on it can be run late.
  void let_go();

 private:
  at::IValue aliased(const at::IValue& value, bool written);

  c10::OperatorHandle op_;
  Substitute substitute_;
  c10::Device device_ = c10::Device(c10::kCUDA, 0);
  std::vector<at::IValue> originals_;
  std::vector<at::IValue> arguments_;
  struct Written {
    at::Tensor cuda, cpu;
    const void* memory;
  };
  std::vector<Written> written_;
  Aliases aliases_;
};

}  // namespace fakecuda::executor
