// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/ahead/side_thread.h"

#include <algorithm>
#include <new>
#include <utility>

#include "agent/telemetry/quiet_thread.h"

namespace cinch::hooks {

bool SideThread::submit(const Job& job, std::size_t most_waiting) {
  std::unique_lock lock(mutex_);
  if (state_ == State::not_started && !start()) state_ = State::ended;
  done_.wait(lock,
             [&] { return state_ == State::ended || stopping_ || waiting_bytes_ <= most_waiting; });
  if (state_ == State::ended || stopping_) return false;
  jobs_.push_back(job);
  waiting_bytes_ += job.bytes;
  arrived_.notify_one();
  return true;
}

bool SideThread::wait_for(const Entry& entry) {
  std::unique_lock lock(mutex_);
  const auto is_waiting = [&] {
    return at_work_ == &entry || std::ranges::any_of(jobs_, [&](const Job& job) {
             return job.entry == &entry && job.kind == Job::Kind::settle;
           });
  };
  done_.wait(lock, [&] { return state_ == State::ended || !is_waiting(); });
  return !is_waiting();
}

std::deque<SideThread::Job> SideThread::take_orphans() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::ended) return {};
  waiting_bytes_ = 0;
  return std::exchange(jobs_, {});
}

void SideThread::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::running || stopping_) return;
    stopping_ = true;
    arrived_.notify_one();
    done_.notify_all();
  }
  pthread_join(thread_, nullptr);
  const std::lock_guard lock(mutex_);
  state_ = State::ended;
  done_.notify_all();
}

void SideThread::begin_in_child() {
  // Constructed anew: their waiters are threads of the parent.
  new (&arrived_) std::condition_variable;
  new (&done_) std::condition_variable;
  at_work_ = nullptr;
  state_ = State::ended;
}

// pre: mutex_ is held
bool SideThread::start() {
  if (!telemetry::start_quiet_thread(thread_, run, this, "cinch")) return false;
  state_ = State::running;
  return true;
}

void* SideThread::run(void* self) {
  static_cast<SideThread*>(self)->loop();
  return nullptr;
}

void SideThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    if (job.kind == Job::Kind::settle) at_work_ = job.entry;
    lock.unlock();
    work_(context_, job);
    lock.lock();
    at_work_ = nullptr;
    waiting_bytes_ -= job.bytes;
    done_.notify_all();
  }
}

}  // namespace cinch::hooks
