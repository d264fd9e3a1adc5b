// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/interpreter.h"

#include <cstddef>

#include <dlfcn.h>

namespace cinch::hooks {
namespace {

/// The few functions of Python's that this needs. Objects are void*.
struct Python {
  int (*is_initialized)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void* (*error_occurred)() = nullptr;
  void (*clear_error)() = nullptr;
  void* (*new_dict)() = nullptr;
  int (*set_item)(void*, const char*, void*) = nullptr;
  void* (*get_item)(void*, const char*) = nullptr;
  void* (*builtins)() = nullptr;
  void* (*compile)(const char*, const char*, int) = nullptr;
  void* (*evaluate)(void*, void*, void*) = nullptr;
  const char* (*text)(void*, std::ptrdiff_t*) = nullptr;
  void (*drop)(void*) = nullptr;

  bool find() {
    return find(is_initialized, "Py_IsInitialized") && find(ensure, "PyGILState_Ensure") &&
           find(release, "PyGILState_Release") && find(error_occurred, "PyErr_Occurred") &&
           find(clear_error, "PyErr_Clear") && find(new_dict, "PyDict_New") &&
           find(set_item, "PyDict_SetItemString") && find(get_item, "PyDict_GetItemString") &&
           find(builtins, "PyEval_GetBuiltins") && find(compile, "Py_CompileString") &&
           find(evaluate, "PyEval_EvalCode") && find(text, "PyUnicode_AsUTF8AndSize") &&
           find(drop, "Py_DecRef");
  }

 private:
  template <typename Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
  }
};

}  // namespace

std::string run_python(const char* program, const char* result) {
  Python python;
  if (!python.find() || python.is_initialized() == 0) return {};
  std::string answer;
  const int state = python.ensure();
  if (python.error_occurred() == nullptr) {
    constexpr int file_input = 257;  // Py_file_input
    void* globals = python.new_dict();
    void* code = python.compile(program, "<cinch>", file_input);
    if (globals != nullptr && code != nullptr &&
        python.set_item(globals, "__builtins__", python.builtins()) == 0) {
      if (void* done = python.evaluate(code, globals, globals)) {
        python.drop(done);
        std::ptrdiff_t size = 0;
        void* left = python.get_item(globals, result);
        const char* text = left == nullptr ? nullptr : python.text(left, &size);
        if (text != nullptr) answer.assign(text, static_cast<std::size_t>(size));
      }
    }
    if (python.error_occurred() != nullptr) python.clear_error();
    if (code != nullptr) python.drop(code);
    if (globals != nullptr) python.drop(globals);
  }
  python.release(state);
  return answer;
}

}  // namespace cinch::hooks
