// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/fork.h"

#include <atomic>
#include <new>
#include <vector>

#include <pthread.h>

namespace cinch::hooks {
namespace {

std::vector<std::mutex*>& locks() {
  static auto& instance = *new std::vector<std::mutex*>;
  return instance;
}

std::atomic<unsigned> generation{0};
void (*child_handler)() = nullptr;

void before_fork() {
  entry_work().lock();
  for (std::mutex* lock : locks()) lock->lock();
}

void unlock_mutexes() {
  for (auto lock = locks().rbegin(); lock != locks().rend(); ++lock) (*lock)->unlock();
}

void after_fork_in_parent() {
  unlock_mutexes();
  entry_work().unlock();
}

void after_fork_in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  unlock_mutexes();
  // glibc's rwlock identifies its writer by thread id, and the forking thread's id is new in the
  // child: it can't unlock the lock it took in the parent. No other thread exists to hold the lock.
  new (&entry_work()) std::shared_mutex;
  child_handler();
}

}  // namespace

void install_fork_handlers(void (*in_child)()) {
  child_handler = in_child;
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void register_fork_lock(std::mutex& lock) {
  locks().push_back(&lock);
}

std::shared_mutex& entry_work() {
  static auto& instance = *new std::shared_mutex;
  return instance;
}

unsigned forks_before() noexcept {
  return generation.load(std::memory_order_relaxed);
}

bool is_forked_child() noexcept {
  return forks_before() != 0;
}

}  // namespace cinch::hooks
