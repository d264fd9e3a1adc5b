// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "say.h"
#include "settings.h"
#include "unrepresented.h"

namespace fakecuda {
namespace {

std::atomic<CallSite*> sites{nullptr};
std::atomic<std::uint64_t> all_uses{0};
std::atomic<std::uint64_t> all_syncs{0};
std::atomic<std::uint64_t> all_implicit_syncs{0};
std::atomic<int> broken{0};
std::atomic<std::FILE*> trace_file{nullptr};
std::atomic<bool> failures_planned{false};
thread_local cudaError_t last_error = cudaSuccess;

struct Planned {
  std::string call;
  std::uint64_t left;
  int error;
};
std::vector<Planned>& planned() {
  static auto* list = new std::vector<Planned>;  // used by calls from destructors of statics
  return *list;
}

void plan(const char* call, std::uint64_t nth, int error) {
  const Guard guard(global_lock());
  planned().push_back({call, nth, error});
  failures_planned = true;
}

// "CALL:NTH[:ERROR],…"
void plan_all(const char* text) {
  std::string rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string one = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const std::size_t colon = one.find(':');
    char* end = nullptr;
    const std::uint64_t nth =
        colon == std::string::npos ? 0 : std::strtoull(one.c_str() + colon + 1, &end, 10);
    if (nth == 0) {
      fault("FAKECUDA_FAIL: \"%s\" is not CALL:NTH[:ERROR]", one.c_str());
      continue;
    }
    plan(one.substr(0, colon).c_str(), nth, *end == ':' ? std::atoi(end + 1) : 2);
  }
}

int due(const char* name) {
  const Guard guard(global_lock());
  int error = 0;
  for (Planned& p : planned()) {
    if (p.left == 0 || (p.call != "*" && p.call != name)) continue;
    if (--p.left == 0 && error == 0) error = p.error;
  }
  return error;
}

void open_trace(const char* path) {
  std::FILE* file = nullptr;
  if (path != nullptr) file = std::strcmp(path, "stderr") == 0 ? stderr : std::fopen(path, "a");
  std::FILE* old = trace_file.exchange(file);
  if (old != nullptr && old != stderr) std::fclose(old);
}

// CUDA does not survive a fork: if the parent used it, every call of the child fails.
std::atomic<bool> used_before_fork{false};

[[gnu::constructor]] void begin() {
  open_trace(settings().trace);
  plan_all(settings().failures);
  pthread_atfork([] { global_lock().lock(); }, [] { global_lock().unlock(); },
                 [] {
                   // A thread of the parent owns it, so the child can't unlock it.
                   new (&global_lock()) std::recursive_mutex;
                   if (used_before_fork) broken = cudaErrorInitializationError;
                 });
}

}  // namespace

std::recursive_mutex& global_lock() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

CallSite::CallSite(const char* call) : name(call), next(sites.load()) {
  while (!sites.compare_exchange_weak(next, this)) {
  }
}

int enter(CallSite& site, const char* format, ...) {
  ++site.uses;
  ++all_uses;
  used_before_fork = true;
  if (std::FILE* file = trace_file.load()) {
    char details[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(details, sizeof details, format, arguments);
    va_end(arguments);
    std::fprintf(file, "%d %s%s\n", gettid(), site.name, details);
    std::fflush(file);
  }
  if (const int error = broken) return error;
  return failures_planned ? due(site.name) : 0;
}

void host_waits(CallSite& site) {
  ++site.syncs;
  ++all_syncs;
}

void may_synchronize(CallSite& site) {
  ++site.implicit_syncs;
  ++all_implicit_syncs;
}

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void break_context(cudaError_t error) {
  int none = 0;
  broken.compare_exchange_strong(none, error);
}

int not_represented(const char* function) {
  fault("%s is not represented", function);
  ++all_uses;
  if (std::strncmp(function, "cuda", 4) == 0) last_error = cudaErrorNotSupported;
  return cudaErrorNotSupported;
}

}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
FAKECUDA_API cudaError_t cudaPeekAtLastError() {
  return last_error;
}

FAKECUDA_API void fakecuda_fail(const char* call, std::uint64_t nth, int error) {
  plan(call, nth, error);
}
FAKECUDA_API void fakecuda_stop_failing() {
  const Guard guard(global_lock());
  planned().clear();
  failures_planned = false;
}
FAKECUDA_API std::uint64_t fakecuda_calls(const char* call) {
  if (call == nullptr || std::strcmp(call, "*") == 0) return all_uses;
  std::uint64_t uses = 0;
  for (const CallSite* s = sites; s != nullptr; s = s->next) {
    if (std::strcmp(s->name, call) == 0) uses += s->uses;
  }
  return uses;
}
FAKECUDA_API std::uint64_t fakecuda_host_syncs() {
  return all_syncs;
}
FAKECUDA_API std::uint64_t fakecuda_host_syncs_of(const char* call) {
  std::uint64_t syncs = 0;
  for (const CallSite* s = sites; s != nullptr; s = s->next) {
    if (std::strcmp(s->name, call) == 0) syncs += s->syncs;
  }
  return syncs;
}
FAKECUDA_API std::uint64_t fakecuda_implicit_syncs() {
  return all_implicit_syncs;
}
FAKECUDA_API std::uint64_t fakecuda_implicit_syncs_of(const char* call) {
  std::uint64_t syncs = 0;
  for (const CallSite* s = sites; s != nullptr; s = s->next) {
    if (std::strcmp(s->name, call) == 0) syncs += s->implicit_syncs;
  }
  return syncs;
}
FAKECUDA_API void fakecuda_trace(const char* path) {
  open_trace(path);
}
FAKECUDA_API void fakecuda_break(const char* what, int error) {
  fault("%s", what);
  break_context(static_cast<cudaError_t>(error));
}
