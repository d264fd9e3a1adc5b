// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "hooks/torch/program/site.h"
#include "policy/entry.h"

namespace c10 {
struct TensorImpl;
}

namespace cinch::hooks {

/// Observes operators and optimizer steps through at::RecordFunction. Keeps a stack of running
/// operators per thread, but only while somebody needs it.

/// What is recorded of each operator. A level includes those before it.
enum class Recording : std::uint8_t {
  nothing,
  names,      ///< 0.15 µs an operator
  arguments,  ///< numbers and words among its arguments; 0.3 µs
  tensors     ///< which tensors it takes and gives; 0.4 µs
};

/// Registers the callbacks, and records tensors until something is saved, but of no more than some
/// ten thousand operators. @pre called once
/// @param at_optimizer_step Called when an optimizer's step begins, on its thread, where Python may
///   run. Must not throw
void observe_operators(void (*at_optimizer_step)());

/// Whether tensors are recorded, so that sites can be named.
bool learning_sites() noexcept;

/// Starts recording tensors (again).
void learn_sites();

/// Called at each start of a backward. Stops recording tensors after two in a row without a new
/// site.
void backward_began();

/// Called at each save while tensors are recorded. Stops that after some thousand saves without a
/// new site, for programs that never run a backward.
void saved_while_learning();

/// The innermost operator that runs on this thread; null if less than `least` of it was recorded,
/// or none runs.
struct OperatorFrame;
OperatorFrame* current_frame(Recording least) noexcept;

/// The same with its name, which is recorded for good from the first call on: each save of a
/// program's own autograd.Function needs it.
OperatorFrame* frame_with_name();

/// The same with its arguments, which an operator with bounds or an exponent needs when it saves
/// `bytes`. They are recorded from the first call on, but not while the saves that need them are
/// few: then the operators' time is worth more than what the arguments save. Call once a save.
OperatorFrame* frame_with_arguments(std::size_t bytes);

/// Has operators' tensors recorded for good.
void record_tensors();

/// Whether `is` holds for one of the tensors that the operator takes, those in lists left out, and
/// `operand` left out once. @pre the operator's tensors were recorded
bool takes_besides(const OperatorFrame& frame, const c10::TensorImpl& operand,
                   bool (*is)(const c10::TensorImpl&));

/// The operator's name, valid while it runs.
const char* frame_name(const OperatorFrame& frame) noexcept;

/// The schema's name of the argument that is the tensor `tensor_impl`; empty if several are. If no
/// argument is: for an in-place operator the name of the argument that it modifies, because it
/// saves a copy of that one; else empty.
std::string argument_name(const OperatorFrame& frame, const void* tensor_impl);

/// The operator's second and third argument; NaN where one is not a number.
std::array<float, 2> argument_numbers(const OperatorFrame& frame);

/// An exponent or an order: the operator's second argument, or the third where only that is a real
/// number; 0 where neither is.
float argument_exponent(const OperatorFrame& frame);
/// Whether the operator's second or fifth argument names a linear reduction: a sum or a mean.
bool argument_reduces_linearly(const OperatorFrame& frame);
/// Element type of the numbers in the workspace that the operator makes, in which gaps are zeros;
/// Undefined where that is not known.
c10::ScalarType workspace_type(const OperatorFrame& frame) noexcept;

/// What an autograd.Function in a frame has saved so far.
struct FunctionSaves {
  std::uint32_t count = 0;  ///< tensors, wanted or not
  /// For compiled_region.h: what is known of the region, and whether that was looked for.
  const std::vector<std::vector<policy::BackwardRead>>* region = nullptr;
  bool is_looked_for = false;
};
FunctionSaves& saves_of(OperatorFrame& frame) noexcept;

/// Counts a save for the innermost operator. Called at every save, before the tensor is judged.
void count_save() noexcept;

/// Names `site` when the operator returns: by the output that is the tensor `tensor_impl`.
void name_output_later(OperatorFrame& frame, Site& site, const void* tensor_impl);

/// The class of the first optimizer that stepped (torch.optim's or a subclass); "" before that.
std::string optimizer_class();

/// Optimizer steps seen so far.
std::uint64_t optimizer_steps() noexcept;

}  // namespace cinch::hooks
