// SPDX-License-Identifier: Apache-2.0
//
// Preloaded beside libcinch.so: Cinch's side thread sleeps for up to E2E_SLOW_US microseconds each
// time that it gives back a lock, as if the machine had no time for it.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

namespace {

// A thread gets its name a little after it has started.
constexpr int most_looks = 1000;

bool is_side_thread() {
  thread_local int looks = 0;
  thread_local bool found = false;
  if (found || looks == most_looks) return found;
  ++looks;
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  found = std::strcmp(name, "cinch") == 0;
  return found;
}

void sleep_a_little() {
  thread_local std::minstd_rand random(1);
  static const char* const most = std::getenv("E2E_SLOW_US");
  if (most != nullptr) usleep(static_cast<useconds_t>(random() % std::strtoul(most, nullptr, 10)));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  using Unlock = int(pthread_mutex_t*);
  static std::atomic<Unlock*> known{nullptr};
  Unlock* unlock = known.load(std::memory_order_relaxed);
  if (unlock == nullptr) {
    unlock = reinterpret_cast<Unlock*>(dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
    known.store(unlock, std::memory_order_relaxed);
  }
  const int result = unlock(mutex);
  if (is_side_thread()) sleep_a_little();
  return result;
}
