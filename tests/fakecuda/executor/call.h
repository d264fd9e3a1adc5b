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

/// Computes an operator in place of its CPU kernel: takes the arguments (CPU tensors) from the
/// stack and leaves the results there.
using Substitute = void (*)(std::vector<at::IValue>& stack);

/// One call of an operator on CUDA tensors, which runs on aliases of them.
///
/// A result that is a written argument is the same tensor; other results are new tensors.
class Call {
 public:
  /// @param arguments those of the operator's call
  Call(const c10::OperatorHandle& op, std::vector<at::IValue> arguments, Substitute substitute);

  /// The device of the first CUDA tensor, or else of the argument that names a CUDA device.
  c10::Device device() const { return device_; }
  const std::vector<fakecuda_range>& ranges() const { return aliases_.ranges(); }

  /// Describes everything in the arguments on which a result's geometry may depend.
  std::string key() const;

  /// Runs the call on the CPU, or on the meta device if nothing is computed. @return the results
  /// there
  std::vector<at::IValue> run() const;

  /// The results for the caller, from those of `run`: written arguments, else new CUDA tensors with
  /// the results' contents. Resizes arguments that were resized on the CPU.
  std::vector<at::IValue> delivered(const std::vector<at::IValue>& results) const;

  /// Index of the argument that a result is, or -1.
  int argument_of_result(std::size_t result) const;
  bool result_is_list(std::size_t result) const;
  const at::IValue& argument(int i) const { return originals_[static_cast<std::size_t>(i)]; }

  /// Whether `run` resized a written argument.
  bool resized() const;

  /// Gives up the CUDA tensors and copies CPU arguments, so that the call can run later.
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
