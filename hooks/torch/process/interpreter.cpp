// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/interpreter.h"

#include <cstddef>
#include <exception>
#include <utility>

#include <pthread.h>

#include "agent/telemetry/quiet_thread.h"
#include "hooks/torch/process/python_symbol.h"

namespace cinch::hooks {
namespace {

/// The Python functions that this file calls. Objects are void*.
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
    return find_in_python(is_initialized, "Py_IsInitialized") &&
           find_in_python(ensure, "PyGILState_Ensure") &&
           find_in_python(release, "PyGILState_Release") &&
           find_in_python(error_occurred, "PyErr_Occurred") &&
           find_in_python(clear_error, "PyErr_Clear") && find_in_python(new_dict, "PyDict_New") &&
           find_in_python(set_item, "PyDict_SetItemString") &&
           find_in_python(get_item, "PyDict_GetItemString") &&
           find_in_python(builtins, "PyEval_GetBuiltins") &&
           find_in_python(compile, "Py_CompileString") &&
           find_in_python(evaluate, "PyEval_EvalCode") &&
           find_in_python(text, "PyUnicode_AsUTF8AndSize") && find_in_python(drop, "Py_DecRef") &&
           find_in_python(disable_gc, "PyGC_Disable") && find_in_python(enable_gc, "PyGC_Enable") &&
           find_in_python(give_up_lock, "PyEval_SaveThread") &&
           find_in_python(take_lock, "PyEval_RestoreThread");
  }
};

/// The program that our thread runs, the variable that it leaves its result in, and the result.
struct Task {
  const Python& python;
  const char* program;
  const char* result;
  std::string answer = {};
};

void* run_task(void* argument) {
  auto& [python, program, result, answer] = *static_cast<Task*>(argument);
  const int state = python.ensure();
  // No garbage collection here: a finalizer of the program belongs to the program's threads, and
  // might wait for the thread that waits for this one.
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
          // No memory: the answer stays empty, as after a failure.
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

}  // namespace

bool holds_interpreter() noexcept {
  using State = void* (*)();
  static const State own = [] {
    State function = nullptr;
    find_in_python(function, "PyGILState_GetThisThreadState");
    return function;
  }();
  static const State running = [] {
    State function = nullptr;
    // The first name exists since Python 3.13, the second before.
    if (!find_in_python(function, "PyThreadState_GetUnchecked")) {
      find_in_python(function, "_PyThreadState_UncheckedGet");
    }
    return function;
  }();
  if (own == nullptr || running == nullptr) return false;
  void* state = own();
  return state != nullptr && running() == state;
}

// Runs in a thread of its own: on the main thread, Python may run the program's signal handlers
// between any two instructions, and exceptions of those handlers must reach the program.
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
