// SPDX-License-Identifier: Apache-2.0
//
// Replaces every aten kernel for CUDA by one function that runs the same operator on the CPU, over
// the same memory. If the fake's schedule defers work, calls are deferred too: the first call with
// given geometries runs at once and shows what the results look like; later ones become work of
// the stream.
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty_strided.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "call.h"
#include "poison.h"
#include "substitutes.h"

namespace fakecuda::executor {
namespace {

/// Geometry and type of a tensor that a call returns.
struct Geometry {
  bool defined = false;
  std::vector<std::int64_t> sizes, strides;
  at::ScalarType type = at::kFloat;
};
struct PlannedResult {
  std::vector<Geometry> tensors;  // one, or those of a list
  at::IValue number;              // a result that is no tensor
};
struct Plan {
  bool late = false;  // whether the call can run late
  std::vector<PlannedResult> results;
};

class Plans {
 public:
  /// @return null when the call was not seen before
  const Plan* find(const std::string& key) {
    const std::lock_guard guard(mutex_);
    const auto at = plans_.find(key);
    return at == plans_.end() ? nullptr : at->second.get();
  }
  void add(std::string key, Plan plan) {
    const std::lock_guard guard(mutex_);
    if (plans_.size() > most) return;  // a scalar that changes in every step makes new keys
    plans_.try_emplace(std::move(key), std::make_unique<Plan>(std::move(plan)));
  }

 private:
  static constexpr std::size_t most = 100'000;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Plan>> plans_;
};

Plans& plans() {
  static auto* all = new Plans;  // destructors of statics may run work
  return *all;
}

/// Whether the host needs values of tensors to continue; on a GPU it would wait. Results that are
/// integers follow from geometry.
bool host_needs_values(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) {
    return true;
  }
  for (const c10::Argument& result : op.schema().returns()) {
    const c10::TypeKind kind = result.type()->kind();
    if (kind == c10::TypeKind::BoolType || kind == c10::TypeKind::FloatType ||
        kind == c10::TypeKind::NumberType) {
      return true;
    }
  }
  return false;
}

/// Operators that draw random numbers may not run late, so that they draw in the program's order.
bool may_run_late(const c10::OperatorHandle& op) {
  return !host_needs_values(op) && !op.hasTag(at::Tag::nondeterministic_seeded);
}

/// Whether all results are written arguments, and none is an `out` argument, which may be resized.
bool only_writes_arguments(const c10::FunctionSchema& schema) {
  bool writes = false;
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.alias_info() == nullptr || !argument.alias_info()->isWrite()) continue;
    if (argument.kwarg_only()) return false;
    writes = true;
  }
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() == nullptr) return false;
  }
  return writes;
}

Plan plan_of(const Call& call, const std::vector<at::IValue>& results) {
  Plan plan;
  plan.late = true;
  for (std::size_t i = 0; i < results.size(); ++i) {
    PlannedResult& planned = plan.results.emplace_back();
    if (call.argument_of_result(i) >= 0) continue;
    const auto add = [&](const at::Tensor& tensor) {
      Geometry geometry;
      if (tensor.defined()) {
        geometry = {true, tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
        plan.late = plan.late && tensor.is_cuda() && !tensor.is_conj() && !tensor.is_neg();
      }
      planned.tensors.push_back(std::move(geometry));
    };
    if (results[i].isTensor()) {
      add(results[i].toTensor());
    } else if (results[i].isTensorList()) {
      for (const at::Tensor& tensor : results[i].toTensorVector()) add(tensor);
    } else {
      planned.number = results[i];
    }
  }
  return plan;
}

/// An enqueued call, and where its results go.
struct Late {
  Call call;
  std::vector<at::Tensor> targets;  // aliases; undefined where the result is undefined
};

void run_late(void* context) {
  const auto& late = *static_cast<const Late*>(context);
  try {
    const std::vector<at::IValue> results = late.call.run();
    std::size_t target = 0;
    const auto put = [&](const at::Tensor& result) {
      const at::Tensor& to = late.targets[target++];
      if (!to.defined()) return;
      TORCH_CHECK(result.defined() && result.sizes() == to.sizes(), "results of another size");
      store(result, to);
    };
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (late.call.argument_of_result(i) >= 0) continue;
      if (results[i].isTensor()) {
        put(results[i].toTensor());
      } else if (results[i].isTensorList()) {
        for (const at::Tensor& tensor : results[i].toTensorVector()) put(tensor);
      }
    }
  } catch (const std::exception& error) {
    fakecuda_break(error.what(), cudaErrorAssert);
  }
}

/// Results of a call by its plan: new CUDA tensors, or arguments where the result is one.
std::vector<at::IValue> allocated(const Call& call, const Plan& plan) {
  std::vector<at::IValue> results;
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    const PlannedResult& planned = plan.results[i];
    const int argument = call.argument_of_result(i);
    if (argument >= 0) {
      results.push_back(call.argument(argument));
      continue;
    }
    if (!planned.number.isNone()) {
      results.push_back(planned.number);
      continue;
    }
    std::vector<at::Tensor> tensors;
    for (const Geometry& geometry : planned.tensors) {
      const auto options = at::TensorOptions().dtype(geometry.type).device(call.device());
      tensors.push_back(geometry.defined
                            ? at::empty_strided(geometry.sizes, geometry.strides, options)
                            : at::Tensor());
    }
    if (call.result_is_list(i)) {
      results.emplace_back(std::move(tensors));
    } else {
      results.emplace_back(std::move(tensors[0]));
    }
  }
  return results;
}

/// Enqueues a call that writes its results to `results`.
void enqueue(Call call, const std::vector<at::IValue>& results, cudaStream_t stream,
             const char* name) {
  Aliases targets;
  auto late = std::make_unique<Late>(Late{std::move(call), {}});
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (late->call.argument_of_result(i) >= 0) continue;
    if (results[i].isTensor()) {
      late->targets.push_back(targets.of(results[i].toTensor(), false));
    } else if (results[i].isTensorList()) {
      for (const at::Tensor& tensor : results[i].toTensorVector()) {
        late->targets.push_back(targets.of(tensor, false));
      }
    }
  }
  std::vector<fakecuda_range> ranges = late->call.ranges();
  ranges.insert(ranges.end(), targets.ranges().begin(), targets.ranges().end());
  late->call.let_go();
  fakecuda_enqueue(
      stream, name, run_late, [](void* c) { delete static_cast<Late*>(c); }, late.release(),
      ranges.data(), ranges.size());
}

/// Runs a call at once, after all work of its stream.
std::vector<at::IValue> run_now(Call& call, const c10::OperatorHandle& op, cudaStream_t stream) {
  if (host_needs_values(op)) {
    c10::cuda::stream_synchronize(stream);
  } else {
    fakecuda_finish(stream);
  }
  return call.delivered(call.run());
}

/// Whether sizes of this call's results depend on values. Those of aten::index do only with masks.
bool sizes_need_values(const Call& call, const c10::OperatorHandle& op) {
  if (op.schema().name() != "aten::index") return host_needs_values(op);
  for (const std::optional<at::Tensor> index : call.argument(1).toOptionalTensorList()) {
    if (index && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte)) {
      return true;
    }
  }
  return false;
}

/// Makes results of the right sizes with undefined contents. Written arguments keep their contents.
std::vector<at::IValue> run_without_values(Call& call, const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(!sizes_need_values(call, op), op.schema().name(),
                              " needs values, and FAKECUDA_COMPUTE is 0");
  if (!only_writes_arguments(op.schema())) return call.delivered(call.run());
  std::vector<at::IValue> results;
  for (std::size_t i = 0; i < op.schema().returns().size(); ++i) {
    results.push_back(call.argument(call.argument_of_result(i)));
  }
  return results;
}

/// Enqueues a call. The first call with its key runs at once, to learn what the results look like;
/// during a capture it is also enqueued, so that the graph has it.
std::vector<at::IValue> run_late_or_learn(Call call, const c10::OperatorHandle& op,
                                          cudaStream_t stream) {
  const char* const name = op.schema().name().c_str();
  if (only_writes_arguments(op.schema())) {
    std::vector<at::IValue> results;
    for (std::size_t i = 0; i < op.schema().returns().size(); ++i) {
      results.push_back(call.argument(call.argument_of_result(i)));
    }
    enqueue(std::move(call), results, stream, name);
    return results;
  }
  std::string key = call.key();
  const Plan* plan = plans().find(key);
  if (plan != nullptr && plan->late) {
    std::vector<at::IValue> results = allocated(call, *plan);
    enqueue(std::move(call), results, stream, name);
    return results;
  }
  fakecuda_finish(stream);
  const std::vector<at::IValue> made = call.run();
  const bool resized = call.resized();
  std::vector<at::IValue> results = call.delivered(made);
  if (plan == nullptr) {
    Plan fresh = plan_of(call, results);
    fresh.late = fresh.late && !resized;
    plans().add(std::move(key), std::move(fresh));
  }
  if (fakecuda_is_capturing(stream) != 0) enqueue(std::move(call), results, stream, name);
  return results;
}

void execute(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  poison_freed_memory();
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  Call call(op, {stack->end() - count, stack->end()}, substitute_of(op));
  const c10::cuda::CUDAGuard device(call.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(call.device().index()).stream();
  const bool late = computes() && fakecuda_is_eager(stream) == 0 && may_run_late(op);
  std::vector<at::IValue> results = late         ? run_late_or_learn(std::move(call), op, stream)
                                    : computes() ? run_now(call, op, stream)
                                                 : run_without_values(call, op);
  stack->erase(stack->end() - count, stack->end());
  for (at::IValue& result : results) stack->push_back(std::move(result));
}

/// Copies between devices use CUDA's own code, which tells the fake which streams wait.
void execute_copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  const std::size_t begin = stack->size() - 3;
  const at::Tensor source = (*stack)[begin + 1].toTensor();
  at::Tensor self = (*stack)[begin].toTensor();
  if (self.device() == source.device()) {
    execute(op, keys, stack);
    return;
  }
  const bool non_blocking = (*stack)[begin + 2].toBool();
  at::native::copy_(self, source, non_blocking);
  stack->erase(stack->end() - 3, stack->end());
  stack->emplace_back(std::move(self));
}

/// Whether torch's own kernel works on the fake runtime, because the operator only allocates, only
/// makes a view, or only copies.
bool is_kept(const c10::FunctionSchema& schema) {
  static const std::unordered_set<std::string> names = {"aten::empty",
                                                        "aten::empty_strided",
                                                        "aten::resize_",
                                                        "aten::set_",
                                                        "aten::record_stream",
                                                        "aten::is_pinned",
                                                        "aten::_pin_memory",
                                                        "aten::is_set_to",
                                                        "aten::_local_scalar_dense",
                                                        "aten::view",
                                                        "aten::_efficientzerotensor",
                                                        "aten::_fused_sdp_choice",
                                                        "aten::_copy_from",
                                                        "aten::_to_copy",
                                                        "aten::_has_compatible_shallow_copy_type",
                                                        "aten::_cudnn_init_dropout_state"};
  const std::string& name = schema.name();
  if (names.contains(name) || name.rfind("aten::", 0) != 0) return true;
  const bool is_substituted = name.rfind("aten::cudnn_batch_norm", 0) == 0 ||
                              name.rfind("aten::_scaled_dot_product_cudnn_attention", 0) == 0;
  if (name.find("cudnn") != std::string::npos || name.find("miopen") != std::string::npos) {
    return !is_substituted;
  }
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

/// Whether an operator has no CUDA kernel but decides by device. It must decide as on the CPU.
bool is_added(const std::string& name) {
  return name == "aten::convolution" || name == "aten::copy_";
}

int replace_kernels() {
  static std::vector<c10::RegistrationHandleRAII> registrations;
  auto& dispatcher = c10::Dispatcher::singleton();
  int count = 0;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || is_kept(op->schema())) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) && !is_added(name.name)) continue;
    auto kernel = name.name == "aten::copy_"
                      ? c10::KernelFunction::makeFromBoxedFunction<&execute_copy>()
                      : c10::KernelFunction::makeFromBoxedFunction<&execute>();
    registrations.push_back(dispatcher.registerImpl(name, c10::DispatchKey::CUDA, std::move(kernel),
                                                    std::nullopt, nullptr, "fakecuda"));
    ++count;
  }
  // There is no cuDNN. Convolutions and normalizations run on the CPU, unless cuDNN's are called by
  // name.
  at::globalContext().setUserEnabledCuDNN(false);
  choose_attention();
  return count;
}

}  // namespace
}  // namespace fakecuda::executor

extern "C" __attribute__((visibility("default"))) void fakecuda_loaded() {
  static const int replaced = fakecuda::executor::replace_kernels();
  (void)replaced;
}
