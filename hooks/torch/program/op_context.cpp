// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/op_context.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include "allocator/torch/host_allocator.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"

namespace cinch::hooks {

struct OperatorFrame {
  static constexpr std::size_t max_inputs = 16;
  static constexpr std::size_t max_outputs = 8;
  struct SavedOutput {
    Site* site;
    const void* tensor_impl;
  };

  const at::RecordFunction* function = nullptr;
  const char* name = nullptr;
  Recording recorded = Recording::nothing;
  std::array<const c10::TensorImpl*, max_inputs> inputs{};  // null for other arguments
  // What is known of other arguments. They are gone when the operator runs.
  std::array<std::optional<double>, 2> numbers;  // the second and third argument
  bool reduces_linearly = false;                 // the second or fifth is "sum" or "mean"
  c10::ScalarType workspace_type = c10::ScalarType::Undefined;
  std::array<SavedOutput, max_outputs> outputs{};
  std::size_t n_outputs = 0;
  FunctionSaves saves;
};

namespace {

// Operators nested deeper take the name of the one at the limit; none is nested that deep.
constexpr int max_depth = 32;
struct Stack {
  std::array<OperatorFrame, max_depth> frames;
  int depth = 0;
  std::int64_t unpaid = 0;  // operators whose arguments were recorded, since the last pay()
};
thread_local Stack stack;

// Recording an operator's arguments takes the time in which so many bytes are compressed.
constexpr std::int64_t bytes_per_operator = 256;
// Arguments are recorded from this credit on, until it is used up.
constexpr std::int64_t most_credit = std::int64_t{16} << 20;
constexpr std::int64_t operators_per_payment = 1024;

// Operators whose tensors are recorded in wait of the first save, so that it has a name; 26 ms of
// them, in a program that never saves. 0: they are used up, or something was saved.
std::atomic<std::int64_t> until_first_save{1 << 16};

std::atomic<Recording> recording{Recording::nothing};
std::atomic<std::uint64_t> steps_begun{0};
// Bytes saved whose codec depends on arguments, less what recording them cost.
std::atomic<std::int64_t> credit{most_credit};
std::atomic<bool> names_wanted{false};
std::atomic<bool> arguments_wanted{false};
std::atomic<bool> tensors_wanted{false};
std::atomic<bool> tensors_always_wanted{false};
std::array<at::CallbackHandle, 4> handles{};  // by Recording
std::mutex& switch_mutex = *new std::mutex;
int quiet_looks = 0;                        // under switch_mutex
std::uint64_t changes_at_last = 0;          // under switch_mutex
std::string& optimizer = *new std::string;  // under switch_mutex
void (*at_step)() = nullptr;

std::optional<double> number_in(const c10::IValue& argument) {
  if (argument.isDouble()) return argument.toDouble();
  if (argument.isInt()) return static_cast<double>(argument.toInt());
  return std::nullopt;
}

bool is_linear_reduction(const c10::IValue& argument) {
  if (!argument.isString()) return false;
  const std::string& name = argument.toStringRef();
  return name == "sum" || name == "mean";
}

bool makes_workspace(const char* op) {
  return std::strcmp(op, "aten::mkldnn_rnn_layer") == 0;
}

// The workspace will hold numbers of the first argument's type. oneDNN leaves gaps between them.
void prepare_workspace(OperatorFrame& frame, c10::ArrayRef<const c10::IValue> inputs) {
  if (!makes_workspace(frame.name) || allocator::host_core() == nullptr) return;
  if (inputs.empty() || !inputs[0].isTensor()) return;
  frame.workspace_type = c10::typeMetaToScalarType(inputs[0].unsafeToTensorImpl()->dtype());
  allocator::fill_host_blocks_with_zeros(true);
}

// Has as much recorded as is wanted by now. pre: switch_mutex is held
void switch_recording() {
  const Recording wanted = tensors_wanted || tensors_always_wanted ? Recording::tensors
                           : arguments_wanted                      ? Recording::arguments
                           : names_wanted                          ? Recording::names
                                                                   : Recording::nothing;
  const Recording before = recording.exchange(wanted);
  if (before == wanted) return;
  const auto handle_of = [](Recording level) { return handles[static_cast<std::size_t>(level)]; };
  if (before != Recording::nothing) at::disableCallback(handle_of(before));
  if (wanted != Recording::nothing) at::reenableCallback(handle_of(wanted));
}

void want(std::atomic<bool>& what, bool wanted) {
  if (what == wanted) return;
  const std::lock_guard lock(switch_mutex);
  what = wanted;
  switch_recording();
}

// Takes what recording the arguments of `operators` operators cost from the credit.
void pay(std::int64_t operators) {
  const std::int64_t cost = operators * bytes_per_operator;
  if (credit.fetch_sub(cost, std::memory_order_relaxed) <= cost) want(arguments_wanted, false);
}

void note_arguments(OperatorFrame& frame, c10::ArrayRef<const c10::IValue> inputs) {
  for (std::size_t i = 0; i < frame.numbers.size(); ++i) {
    frame.numbers[i] = i + 1 < inputs.size() ? number_in(inputs[i + 1]) : std::nullopt;
  }
  frame.reduces_linearly = (inputs.size() > 1 && is_linear_reduction(inputs[1])) ||
                           (inputs.size() > 4 && is_linear_reduction(inputs[4]));
}

void note_tensors(OperatorFrame& frame, c10::ArrayRef<const c10::IValue> inputs) {
  frame.inputs.fill(nullptr);
  for (std::size_t i = 0; i < std::min(inputs.size(), OperatorFrame::max_inputs); ++i) {
    if (inputs[i].isTensor()) frame.inputs[i] = inputs[i].unsafeToTensorImpl();
  }
}

template <Recording level>
std::unique_ptr<at::ObserverContext> operator_starts(const at::RecordFunction& function) {
  Stack& s = stack;
  if (s.depth < max_depth) {
    OperatorFrame& frame = s.frames[static_cast<std::size_t>(s.depth)];
    frame.function = &function;
    frame.name = function.name();
    frame.recorded = level;
    frame.n_outputs = 0;
    frame.saves = {};
    frame.workspace_type = c10::ScalarType::Undefined;
    if constexpr (level >= Recording::arguments) {
      note_arguments(frame, function.inputs());
      prepare_workspace(frame, function.inputs());
    }
    if constexpr (level >= Recording::tensors) note_tensors(frame, function.inputs());
  }
  if constexpr (level == Recording::tensors) {
    const bool waits = until_first_save.load(std::memory_order_relaxed) > 0;
    if (waits && until_first_save.fetch_sub(1, std::memory_order_relaxed) == 1) {
      want(tensors_wanted, false);
    }
  }
  ++s.depth;
  if constexpr (level == Recording::arguments) {
    if (++s.unpaid == operators_per_payment) pay(std::exchange(s.unpaid, 0));
  }
  return nullptr;
}

// Index of the argument that an in-place operator modifies; for others the number of arguments.
std::size_t modified_argument(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  const std::string& name = schema.name();
  const bool is_inplace = name.ends_with('_') && !name.ends_with("__");
  if (!is_inplace) return arguments.size();
  const auto modified = std::ranges::find_if(arguments, [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  });
  return static_cast<std::size_t>(modified - arguments.begin());
}

std::string output_name(std::size_t index, std::size_t count) {
  return count == 1 ? "result" : "result" + std::to_string(index);
}

void operator_ends(const at::RecordFunction& function, at::ObserverContext*) {
  Stack& s = stack;
  if (s.depth == 0) return;  // it started before recording did
  --s.depth;
  if (s.depth >= max_depth) return;
  OperatorFrame& frame = s.frames[static_cast<std::size_t>(s.depth)];
  if (frame.function != &function) return;
  if (frame.workspace_type != c10::ScalarType::Undefined) {
    allocator::fill_host_blocks_with_zeros(false);
  }
  if (frame.n_outputs == 0) return;
  const auto& outputs = function.outputs();
  for (std::size_t saved = 0; saved < frame.n_outputs; ++saved) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].isTensor() &&
          outputs[i].unsafeToTensorImpl() == frame.outputs[saved].tensor_impl) {
        if_memory_allows(
            [&] { frame.outputs[saved].site->name(frame.name, output_name(i, outputs.size())); });
      }
    }
  }
}

// `name` is "<class>.step".
void note_optimizer(std::string_view name) {
  const std::lock_guard lock(switch_mutex);
  optimizer = name.substr(0, name.rfind('.'));
}

std::unique_ptr<at::ObserverContext> scope_starts(const at::RecordFunction& function) {
  // torch.optim wraps every step() in a scope named "Optimizer.step#<class>.step".
  static constexpr char prefix[] = "Optimizer.step#";
  if (std::strncmp(function.name(), prefix, sizeof prefix - 1) == 0) {
    if (steps_begun.fetch_add(1, std::memory_order_relaxed) == 0)
      note_optimizer(function.name() + sizeof prefix - 1);
    at_step();
  }
  return nullptr;
}

// Stops recording tensors at the `enough`-th call in a row that finds no new or newly named site.
void stop_if_quiet(int enough) {
  const std::lock_guard lock(switch_mutex);
  const std::uint64_t changes = site_changes();
  quiet_looks = changes == changes_at_last ? quiet_looks + 1 : 0;
  changes_at_last = changes;
  if (quiet_looks < enough) return;
  tensors_wanted = false;
  switch_recording();
}

template <Recording level>
void add_callback() {
  at::CallbackHandle& handle = handles[static_cast<std::size_t>(level)];
  handle = at::addGlobalCallback(at::RecordFunctionCallback(operator_starts<level>, operator_ends)
                                     .needsInputs(level >= Recording::arguments)
                                     .needsOutputs(level >= Recording::tensors)
                                     .scopes({at::RecordScope::FUNCTION}));
  at::disableCallback(handle);
}

}  // namespace

void observe_operators(void (*at_optimizer_step)()) {
  at_step = at_optimizer_step;
  register_fork_lock(switch_mutex);
  at::addGlobalCallback(
      at::RecordFunctionCallback(scope_starts).scopes({at::RecordScope::USER_SCOPE}));
  add_callback<Recording::names>();
  add_callback<Recording::arguments>();
  add_callback<Recording::tensors>();
  learn_sites();
}

bool learning_sites() noexcept {
  return tensors_wanted.load(std::memory_order_relaxed);
}

void learn_sites() {
  const std::lock_guard lock(switch_mutex);
  quiet_looks = 0;
  tensors_wanted = true;
  switch_recording();
}

OperatorFrame* frame_with_name() {
  want(names_wanted, true);
  return current_frame(Recording::names);
}

OperatorFrame* frame_with_arguments(std::size_t bytes) {
  const std::int64_t before =
      credit.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  if (before + static_cast<std::int64_t>(bytes) >= most_credit) {
    credit.store(most_credit, std::memory_order_relaxed);
    want(arguments_wanted, true);
  }
  return current_frame(Recording::arguments);
}

void record_tensors() {
  want(tensors_always_wanted, true);
}

void saved_while_learning() {
  constexpr int look_every = 4096;
  static std::atomic<int> saves{0};
  until_first_save.store(0, std::memory_order_relaxed);
  if (saves.fetch_add(1, std::memory_order_relaxed) % look_every == look_every - 1) {
    stop_if_quiet(1);
  }
}

void backward_began() {
  if (learning_sites()) stop_if_quiet(2);
}

OperatorFrame* current_frame(Recording least) noexcept {
  // Torch disables recording on a thread here and there. Operators then run without a frame of
  // their own, and their saves would be attributed to the frame on top.
  if (recording.load(std::memory_order_relaxed) < least || stack.depth == 0 ||
      !at::isRecordFunctionEnabled()) {
    return nullptr;
  }
  OperatorFrame& frame =
      stack.frames[static_cast<std::size_t>(std::min(stack.depth, max_depth) - 1)];
  return frame.recorded < least ? nullptr : &frame;
}

bool takes_besides(const OperatorFrame& frame, const c10::TensorImpl& operand,
                   bool (*is)(const c10::TensorImpl&)) {
  bool is_left_out = false;
  return std::ranges::any_of(frame.inputs, [&](const c10::TensorImpl* tensor) {
    if (tensor == nullptr) return false;
    if (tensor == &operand && !std::exchange(is_left_out, true)) return false;
    return is(*tensor);
  });
}

const char* frame_name(const OperatorFrame& frame) noexcept {
  return frame.name;
}

std::string argument_name(const OperatorFrame& frame, const void* tensor_impl) {
  std::size_t found = frame.inputs.size();
  for (std::size_t i = 0; i < frame.inputs.size(); ++i) {
    if (frame.inputs[i] != tensor_impl) continue;
    if (found != frame.inputs.size()) return {};  // x * x: either argument
    found = i;
  }
  const auto schema = frame.function->operator_schema();
  if (!schema) return {};
  if (found == frame.inputs.size()) found = modified_argument(*schema);
  return found < schema->arguments().size() ? schema->arguments()[found].name() : "";
}

std::array<float, 2> argument_numbers(const OperatorFrame& frame) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const auto& [second, third] = frame.numbers;
  return {static_cast<float>(second.value_or(unknown)),
          static_cast<float>(third.value_or(unknown))};
}

float argument_exponent(const OperatorFrame& frame) {
  const auto& [second, third] = frame.numbers;
  return static_cast<float>(second.value_or(third.value_or(0)));
}

bool argument_reduces_linearly(const OperatorFrame& frame) {
  return frame.reduces_linearly;
}

c10::ScalarType workspace_type(const OperatorFrame& frame) noexcept {
  return frame.workspace_type;
}

FunctionSaves& saves_of(OperatorFrame& frame) noexcept {
  return frame.saves;
}

void count_save() noexcept {
  if (OperatorFrame* const frame = current_frame(Recording::names)) ++frame->saves.count;
}

void name_output_later(OperatorFrame& frame, Site& site, const void* tensor_impl) {
  if (frame.n_outputs == OperatorFrame::max_outputs) return;
  frame.outputs[frame.n_outputs++] = {&site, tensor_impl};
}

std::string optimizer_class() {
  const std::lock_guard lock(switch_mutex);
  return optimizer;
}

std::uint64_t optimizer_steps() noexcept {
  return steps_begun.load(std::memory_order_relaxed);
}

}  // namespace cinch::hooks
