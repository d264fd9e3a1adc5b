// SPDX-License-Identifier: Apache-2.0
#include "allocator/order.h"

#include <new>

namespace cinch::allocator {

Order::~Order() {
  for (StreamState& state : streams_) {
    if (state.fence != nullptr) drop(state.fence);
  }
  for (const Event event : spare_) driver_.event_destroy(driver_.self, event);
}

std::uint32_t Order::index_of(Stream stream) noexcept {
  if (last_ < streams_.size() && streams_[last_].stream == stream) return last_;
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].stream == stream) return last_ = i;
  }
  try {
    streams_.push_back({.stream = stream});
  } catch (const std::bad_alloc&) {
    return no_stream;
  }
  return last_ = static_cast<std::uint32_t>(streams_.size() - 1);
}

// pre: the fence is done
void Order::complete_fence(StreamState& state) noexcept {
  state.done = state.fenced;
  drop(state.fence);
  state.fence = nullptr;
}

void Order::query(std::uint32_t index) noexcept {
  if (driver_.synchronous) return;
  StreamState& state = streams_[index];
  if (state.fence != nullptr && query(state.fence)) complete_fence(state);
  if (state.fence != nullptr || state.done == state.frees) return;
  state.fence = record(index);
  if (state.fence == nullptr) return;
  state.fenced = state.frees;
  if (query(state.fence)) complete_fence(state);
}

bool Order::synchronize(std::uint32_t index) noexcept {
  query(index);
  StreamState& state = streams_[index];
  // Twice: the recorded fence may be older than the last free.
  for (int i = 0; i < 2 && state.fence != nullptr; ++i) {
    if (!synchronize(state.fence)) return false;
    query(index);
  }
  return driver_.synchronous || state.done == state.frees;
}

RecordedEvent* Order::record(std::uint32_t stream) noexcept {
  RecordedEvent* recorded = events_.take();
  if (recorded == nullptr) return nullptr;
  bool good = true;
  if (!spare_.empty()) {
    recorded->event = spare_.back();
    spare_.pop_back();
  } else {
    good = driver_.event_create(driver_.self, &recorded->event) == Status::ok;
    if (!good) recorded->event = 0;
  }
  if (!good ||
      driver_.event_record(driver_.self, recorded->event, streams_[stream].stream) != Status::ok) {
    if (good) {
      drop(recorded);
    } else {
      events_.give(recorded);
    }
    return nullptr;
  }
  return recorded;
}

void Order::drop(RecordedEvent* recorded) noexcept {
  try {
    spare_.push_back(recorded->event);
  } catch (const std::bad_alloc&) {
    driver_.event_destroy(driver_.self, recorded->event);
  }
  events_.give(recorded);
}

bool Order::query(RecordedEvent* recorded) noexcept {
  if (!recorded->done)
    recorded->done = driver_.event_query(driver_.self, recorded->event) == Status::ok;
  return recorded->done;
}

bool Order::synchronize(RecordedEvent* recorded) noexcept {
  if (!recorded->done) {
    recorded->done = driver_.event_synchronize(driver_.self, recorded->event) == Status::ok;
  }
  return recorded->done;
}

bool Order::add(Wait*& list, std::uint32_t stream) noexcept {
  Wait* wait = waits_.take();
  if (wait == nullptr) return false;
  wait->next = list;
  wait->stream = stream;
  list = wait;
  return true;
}

void Order::clear(Wait*& list) noexcept {
  while (list != nullptr) {
    Wait* wait = list;
    list = wait->next;
    if (wait->recorded != nullptr) drop(wait->recorded);
    waits_.give(wait);
  }
}

bool Order::record(Wait* list) noexcept {
  bool all = true;
  for (Wait* wait = list; wait != nullptr; wait = wait->next) {
    if (wait->recorded == nullptr) wait->recorded = record(wait->stream);
    all = all && wait->recorded != nullptr;
  }
  return all;
}

// Removes the waits whose event is done, as `is_done` tells. @return whether none is left
template <typename IsDone>
bool Order::drop_done(Wait*& list, const IsDone& is_done) noexcept {
  record(list);
  Wait** link = &list;
  while (*link != nullptr) {
    Wait* wait = *link;
    if (wait->recorded != nullptr && is_done(wait->recorded)) {
      *link = wait->next;
      drop(wait->recorded);
      waits_.give(wait);
    } else {
      link = &wait->next;
    }
  }
  return list == nullptr;
}

bool Order::query(Wait*& list) noexcept {
  return drop_done(list, [&](RecordedEvent* recorded) { return query(recorded); });
}

bool Order::synchronize(Wait*& list) noexcept {
  return drop_done(list, [&](RecordedEvent* recorded) { return synchronize(recorded); });
}

bool Order::wait_for(std::uint32_t stream, Wait*& list) noexcept {
  if (!record(list)) return false;
  while (list != nullptr) {
    Wait* wait = list;
    if (!wait->recorded->done && driver_.stream_wait(driver_.self, streams_[stream].stream,
                                                     wait->recorded->event) != Status::ok) {
      return false;
    }
    list = wait->next;
    drop(wait->recorded);
    waits_.give(wait);
  }
  return true;
}

bool Order::wait_for_stream(std::uint32_t stream, std::uint32_t other) noexcept {
  if (driver_.synchronous || stream == other) return true;
  RecordedEvent* now = record(other);
  if (now == nullptr) return false;
  const Status status = driver_.stream_wait(driver_.self, streams_[stream].stream, now->event);
  drop(now);
  return status == Status::ok;
}

}  // namespace cinch::allocator
