// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/interpreter.h"

#include <cstddef>
#include <exception>
#include <utility>

#include <dlfcn.h>
#include <pthread.h>

#include "agent/telemetry/quiet_thread.h"

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
  int (*disable_gc)() = nullptr;
  int (*enable_gc)() = nullptr;
  void* (*give_up_lock)() = nullptr;
  void (*take_lock)(void*) = nullptr;

  bool find() {
    return find(is_initialized, "Py_IsInitialized") && find(ensure, "PyGILState_Ensure") &&
           find(release, "PyGILState_Release") && find(error_occurred, "PyErr_Occurred") &&
           find(clear_error, "PyErr_Clear") && find(new_dict, "PyDict_New") &&
           find(set_item, "PyDict_SetItemString") && find(get_item, "PyDict_GetItemString") &&
           find(builtins, "PyEval_GetBuiltins") && find(compile, "Py_CompileString") &&
           find(evaluate, "PyEval_EvalCode") && find(text, "PyUnicode_AsUTF8AndSize") &&
           find(drop, "Py_DecRef") && find(disable_gc, "PyGC_Disable") &&
           find(enable_gc, "PyGC_Enable") && find(give_up_lock, "PyEval_SaveThread") &&
           find(take_lock, "PyEval_RestoreThread");
  }

 private:
  template <typename Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
  }
};

/// What the thread of ours shall run, and what comes of it.
struct Task {
  const Python& python;
  const char* program;
  const char* result;
  std::string answer = {};
};

void* run_task(void* argument) {
  auto& [python, program, result, answer] = *static_cast<Task*>(argument);
  const int state = python.ensure();
  // The program's finalizers belong to its own threads, and might wait for the one that waits here.
  const int collected = python.disable_gc();
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
        try {
          if (text != nullptr) answer.assign(text, static_cast<std::size_t>(size));
        } catch (const std::exception&) {
          // No memory: as if it had failed.
        }
      }
    }
    if (python.error_occurred() != nullptr) python.clear_error();
    if (code != nullptr) python.drop(code);
    if (globals != nullptr) python.drop(globals);
  }
  if (collected != 0) python.enable_gc();
  python.release(state);
  return nullptr;
}

template <typename Function>
Function function_of_python(const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool holds_interpreter() noexcept {
  using State = void* (*)();
  static const auto own = function_of_python<State>("PyGILState_GetThisThreadState");
  static const auto running = [] {
    const auto since_3_13 = function_of_python<State>("PyThreadState_GetUnchecked");
    if (since_3_13 != nullptr) return since_3_13;
    return function_of_python<State>("_PyThreadState_UncheckedGet");
  }();
  if (own == nullptr || running == nullptr) return false;
  void* state = own();
  return state != nullptr && running() == state;
}

// In a thread of its own: Python runs the program's signal handlers in the main thread, between any
// two steps of what it runs there. What they raise belongs to the program.
std::string run_python(const char* program, const char* result) {
  Python python;
  if (!python.find() || python.is_initialized() == 0) return {};
  Task task{python, program, result};
  void* state = holds_interpreter() ? python.give_up_lock() : nullptr;
  pthread_t thread;
  if (telemetry::start_quiet_thread(thread, run_task, &task, "cinch-python")) {
    pthread_join(thread, nullptr);
  }
  if (state != nullptr) python.take_lock(state);
  return std::move(task.answer);
}

}  // namespace cinch::hooks
