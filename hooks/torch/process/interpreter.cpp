// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/interpreter.h"

#include <cstddef>
#include <utility>

#include <dlfcn.h>
#include <pthread.h>

#include "agent/telemetry/quiet_thread.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/python.h"

namespace cinch::hooks {
namespace {

/// The program that our thread runs, the variable that it leaves its result in, and the result.
struct Task {
  const char* program;
  const char* result;
  std::string answer = {};
};

void* run_task(void* argument) {
  auto& [program, result, answer] = *static_cast<Task*>(argument);
  const int state = python().ensure();
  // No garbage collection here: a finalizer of the program belongs to the program's threads, and
  // might wait for the thread that waits for this one.
  const int collected = python().disable_gc();
  if (python().error_occurred() == nullptr) {
    if (void* names = python().run(program)) {
      std::ptrdiff_t size = 0;
      void* left = python().get_item(names, result);
      const char* text = left == nullptr ? nullptr : python().text(left, &size);
      // Without memory the answer stays empty, as after a failure.
      if_memory_allows([&] {
        if (text != nullptr) answer.assign(text, static_cast<std::size_t>(size));
      });
      python().drop(names);
    }
    if (python().error_occurred() != nullptr) python().clear_error();
  }
  if (collected != 0) python().enable_gc();
  python().release(state);
  return nullptr;
}

}  // namespace

bool holds_interpreter() noexcept {
  using State = void* (*)();
  const auto find = [](const char* name) {
    return reinterpret_cast<State>(dlsym(RTLD_DEFAULT, name));
  };
  static const State own = find("PyGILState_GetThisThreadState");
  // The first name exists since Python 3.13, the second before.
  static const State since_3_13 = find("PyThreadState_GetUnchecked");
  static const State running = since_3_13 ? since_3_13 : find("_PyThreadState_UncheckedGet");
  if (own == nullptr || running == nullptr) return false;
  void* state = own();
  return state != nullptr && running() == state;
}

// Runs in a thread of its own: on the main thread, Python may run the program's signal handlers
// between any two instructions, and exceptions of those handlers must reach the program.
std::string run_python(const char* program, const char* result) {
  if (!python().found || python().is_initialized() == 0) return {};
  Task task{program, result};
  void* state = holds_interpreter() ? python().give_up_lock() : nullptr;
  pthread_t thread;
  if (telemetry::start_quiet_thread(thread, run_task, &task, "cinch-python")) {
    pthread_join(thread, nullptr);
  }
  if (state != nullptr) python().take_lock(state);
  return std::move(task.answer);
}

}  // namespace cinch::hooks
