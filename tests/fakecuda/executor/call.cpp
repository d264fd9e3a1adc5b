// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <sstream>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAStream.h>

#include "fakecuda.h"

namespace fakecuda::executor {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Dispatch keys that come before a backend's kernel; they are excluded while a kernel runs.
c10::DispatchKeySet above_kernels() {
  return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
         c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                              c10::DispatchKey::Functionalize,
                              c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                              c10::DispatchKey::FuncTorchDynamicLayerBackMode});
}

template <class Function>
void for_each_tensor(const at::IValue& value, const Function& function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) function(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      if (tensor) function(*tensor);
    }
  }
}

void append(std::string& key, std::int64_t value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& key, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    key += 'u';
    return;
  }
  key += 't';
  append(key, static_cast<std::int64_t>(tensor.scalar_type()));
  append(key, tensor.is_cuda() ? tensor.device().index() : -1);
  append(key, tensor.dim());
  append(key, tensor.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0);
  for (const std::int64_t size : tensor.sizes()) append(key, size);
  for (const std::int64_t stride : tensor.strides()) append(key, stride);
}

/// Runs work that may still write memory that the allocator has given out anew (such as poison).
void settle_new_memory(c10::Device device) {
  fakecuda_finish(c10::cuda::getCurrentCUDAStream(device.index()));
}

}  // namespace

Call::Call(const c10::OperatorHandle& op, std::vector<at::IValue> arguments, Substitute substitute)
    : op_(op), substitute_(substitute), originals_(std::move(arguments)) {
  bool found = false;
  for (const at::IValue& value : originals_) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (found || !tensor.defined() || !tensor.is_cuda()) return;
      device_ = tensor.device();
      found = true;
    });
    if (!found && value.isDevice() && value.toDevice().is_cuda()) {
      device_ = value.toDevice();
      found = true;
    }
  }
  for (std::size_t i = 0; i < originals_.size(); ++i) {
    arguments_.push_back(aliased(originals_[i], is_written(op.schema().arguments()[i])));
  }
}

at::IValue Call::aliased(const at::IValue& value, bool written) {
  const auto alias = [&](const at::Tensor& tensor) {
    at::Tensor cpu = aliases_.of(tensor, written);
    if (written && tensor.defined() && tensor.is_cuda()) {
      written_.push_back({tensor, cpu, cpu.unsafeGetTensorImpl()->data()});
    }
    return cpu;
  };
  if (value.isTensor()) return alias(value.toTensor());
  if (value.isTensorList()) {
    std::vector<at::Tensor> list = value.toTensorVector();
    for (at::Tensor& tensor : list) tensor = alias(tensor);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::optional<at::Tensor>(alias(*tensor)) : tensor);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) {
    return c10::Device(computes() ? c10::kCPU : c10::kMeta);
  }
  // The CPU's default generator replaces CUDA's, so the draws are those of the same run on the CPU.
  if (value.isGenerator()) return {};
  return value;
}

std::string Call::key() const {
  std::string key;
  key.reserve(256);
  key += op_.schema().name();
  key += '.';
  key += op_.schema().overload_name();
  for (const at::IValue& value : originals_) {
    key += ';';
    if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) {
      for_each_tensor(value, [&](const at::Tensor& tensor) { append(key, tensor); });
    } else if (value.isInt()) {
      append(key, value.toInt());
    } else if (value.isBool()) {
      append(key, value.toBool() ? 1 : 0);
    } else if (value.isIntList()) {
      for (const std::int64_t each : value.toIntVector()) append(key, each);
    } else if (!value.isNone() && !value.isGenerator()) {
      std::ostringstream text;
      text << value;
      key += text.str();
    }
  }
  return key;
}

std::vector<at::IValue> Call::run() const {
  const c10::impl::ForceDispatchKeyGuard dispatch(c10::default_included_set, above_kernels());
  const c10::AutoGradMode no_grad(false);
  const at::DisableRecordFunctionGuard unrecorded;
  std::vector<at::IValue> stack = arguments_;
  if (!computes()) {
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } else if (substitute_ != nullptr) {
    substitute_(stack);
  } else {
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  }
  return stack;
}

int Call::argument_of_result(std::size_t result) const {
  const c10::FunctionSchema& schema = op_.schema();
  const c10::AliasInfo* const alias = schema.returns()[result].alias_info();
  if (alias == nullptr) return -1;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* const other = schema.arguments()[i].alias_info();
    if (other != nullptr && other->beforeSets() == alias->beforeSets()) return static_cast<int>(i);
  }
  return -1;
}

bool Call::result_is_list(std::size_t result) const {
  return op_.schema().returns()[result].type()->kind() == c10::TypeKind::ListType;
}

bool Call::resized() const {
  for (const Written& w : written_) {
    if (w.cpu.sizes() != w.cuda.sizes() || w.cpu.unsafeGetTensorImpl()->data() != w.memory) {
      return true;
    }
  }
  return false;
}

std::vector<at::IValue> Call::delivered(const std::vector<at::IValue>& results) const {
  for (const Written& w : written_) {
    const bool moved = w.cpu.unsafeGetTensorImpl()->data() != w.memory;
    if (!moved && w.cpu.sizes() == w.cuda.sizes()) continue;
    w.cuda.resize_(w.cpu.sizes());
    if (!moved) continue;
    settle_new_memory(device_);
    Aliases fresh;
    store(w.cpu, fresh.of(w.cuda, false));
  }
  const auto to_cuda = [&](const at::Tensor& result) -> at::Tensor {
    if (!result.defined() || result.is_cpu() != computes()) return result;
    at::Tensor cuda = allocated_like(result, device_);
    settle_new_memory(device_);
    Aliases fresh;
    store(result, fresh.of(cuda, false));
    return cuda;
  };
  std::vector<at::IValue> delivered;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int argument = argument_of_result(i);
    if (argument >= 0) {
      delivered.push_back(originals_[static_cast<std::size_t>(argument)]);
    } else if (results[i].isTensor()) {
      delivered.emplace_back(to_cuda(results[i].toTensor()));
    } else if (results[i].isTensorList()) {
      std::vector<at::Tensor> list = results[i].toTensorVector();
      for (at::Tensor& tensor : list) tensor = to_cuda(tensor);
      delivered.emplace_back(std::move(list));
    } else {
      delivered.push_back(results[i]);
    }
  }
  return delivered;
}

void Call::let_go() {
  for (std::size_t i = 0; i < originals_.size(); ++i) {
    // The program may change its CPU tensors as soon as the call returns.
    const at::IValue& original = originals_[i];
    if (original.isTensor() && original.toTensor().defined() && original.toTensor().is_cpu()) {
      const at::Tensor tensor = original.toTensor();
      at::Tensor copy = tensor.clone();
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
        copy.unsafeGetTensorImpl()->set_wrapped_number(true);
      }
      arguments_[i] = copy;
    } else if (original.isTensorList()) {
      std::vector<at::Tensor> aliases = arguments_[i].toTensorVector();
      const std::vector<at::Tensor> tensors = original.toTensorVector();
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (tensors[t].defined() && tensors[t].is_cpu()) aliases[t] = tensors[t].clone();
      }
      arguments_[i] = aliases;
    }
  }
  originals_.clear();
  written_.clear();
}

}  // namespace fakecuda::executor
