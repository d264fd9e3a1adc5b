// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/python_tensor.h"

#include <cstddef>
#include <string_view>

#include "hooks/torch/process/interpreter.h"
#include "hooks/torch/process/python.h"

namespace cinch::hooks {
namespace {

/// A class, to be kept for as long as the process lives; null if there is none.
void* class_named(const char* of_module, const char* name) {
  void* from = python().module(of_module);
  void* found_class = from == nullptr ? nullptr : python().attribute(from, name);
  if (found_class == nullptr) python().clear_error();
  return found_class;
}

// torch.compile sets attributes of its own on tensors.
bool is_torchs_own(std::string_view attribute) {
  return attribute.starts_with("_dynamo_");
}

bool has_attributes(void* object) {
  void* attributes = python().attributes(object, nullptr);
  if (attributes == nullptr) {
    python().clear_error();
    return true;
  }
  bool any = false;
  std::ptrdiff_t position = 0;
  void* key = nullptr;
  void* value = nullptr;
  while (!any && python().next(attributes, &position, &key, &value) != 0) {
    std::ptrdiff_t size = 0;
    const char* name = python().text(key, &size);
    if (name == nullptr) python().clear_error();
    any = name == nullptr || !is_torchs_own({name, static_cast<std::size_t>(size)});
  }
  python().drop(attributes);
  return any;
}

}  // namespace

bool is_bare_in_python(const c10::TensorImpl& tensor) noexcept {
  if (!python().found || !holds_interpreter()) return false;
  void* object = tensor.pyobj_slot()->load_pyobj();
  if (object == nullptr) return true;
  // The interpreter's lock is held, so one thread at a time looks these up.
  static void* tensor_class = nullptr;
  static void* parameter_class = nullptr;
  if (tensor_class == nullptr) tensor_class = class_named("torch", "Tensor");
  if (parameter_class == nullptr) {
    parameter_class = class_named("torch.nn.parameter", "Parameter");
  }
  void* type = python().type_of(object);
  const bool is_plain = type != nullptr && (type == tensor_class || type == parameter_class);
  if (type != nullptr) python().drop(type);
  return is_plain && !has_attributes(object);
}

}  // namespace cinch::hooks
