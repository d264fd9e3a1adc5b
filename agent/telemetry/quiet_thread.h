// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

#include <pthread.h>

namespace cinch::telemetry {

/// Starts a thread that blocks all signals, so that it never runs the program's handlers. False
/// when no thread can be made; `thread` is then not set. @param name At most 15 characters
inline bool start_quiet_thread(pthread_t& thread, void* (*run)(void*), void* argument,
                               const char* name) noexcept {
  // A new thread inherits the signal mask of the thread that makes it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_t started;
  const bool there = pthread_create(&started, nullptr, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!there) return false;
  pthread_setname_np(started, name);
  thread = started;
  return true;
}

}  // namespace cinch::telemetry
