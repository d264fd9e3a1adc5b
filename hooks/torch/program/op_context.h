// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "codecs/interval.h"
#include "hooks/torch/program/site.h"

namespace cinch::hooks {

/// Observes operators through at::RecordFunction: a stack of running operators per thread, switched
/// on only while there are sites to be named (about 0.5 µs an operator), and optimizer steps.

/// Registers the callbacks. @pre called once
/// @param at_optimizer_step Called when an optimizer's step begins, in its thread, which may run
///   Python. Throws nothing
void observe_operators(void (*at_optimizer_step)());

/// Whether operator names are being recorded.
bool recording_names() noexcept;

/// Starts recording (again).
void record_names();

/// Starts recording for good: a program's own autograd.Functions are named at each save, and so are
/// the bounds of operators that have some.
void keep_recording_names();

/// Called at each start of a backward: recording stops after two in a row without a new site.
void backward_began();

/// Called at each save while names are recorded: stops recording after some thousands without a new
/// site, for programs that never run a backward.
void saved_while_recording();

/// What runs on this thread, innermost; null while names are not recorded or nothing runs.
struct OperatorFrame;
OperatorFrame* current_frame() noexcept;

/// The operator's name, valid while it runs.
const char* frame_name(const OperatorFrame& frame) noexcept;

/// The schema's name of the argument that is the tensor `tensor_impl`; empty when two are. When
/// none is, that of the argument that an in-place operator modifies, of which it saves a copy; else
/// empty.
std::string argument_name(const OperatorFrame& frame, const void* tensor_impl);

/// The operator's second and third argument as bounds, rounded as its kernels round them; not lower
/// < upper where they are no such thing.
codecs::IntervalBounds argument_bounds(const OperatorFrame& frame);

/// Names `site` when the operator returns and its outputs can be compared with `tensor_impl`.
void name_output_later(OperatorFrame& frame, Site& site, const void* tensor_impl);

/// The class of torch.optim's, or of a subclass, that stepped first; "" before that.
std::string optimizer_class();

/// Optimizer steps seen so far.
std::uint64_t optimizer_steps() noexcept;

}  // namespace cinch::hooks
