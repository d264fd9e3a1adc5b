// SPDX-License-Identifier: Apache-2.0
#include "allocator/blocks/order.h"

#include <algorithm>
#include <new>
#include <utility>

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

void Order::note_done(const RecordedEvent* recorded) noexcept {
  StreamState& state = streams_[recorded->stream];
  state.done = std::max(state.done, recorded->frees);
}

void Order::query(std::uint32_t index) noexcept {
  if (driver_.synchronous) return;
  StreamState& state = streams_[index];
  if (state.fence == nullptr || query(state.fence)) {
    if (state.fence != nullptr) drop(std::exchange(state.fence, nullptr));
    if (state.done == state.frees) return;
    state.fence = record(index);
    if (state.fence != nullptr && query(state.fence)) drop(std::exchange(state.fence, nullptr));
  }
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
  recorded->stream = stream;
  recorded->frees = streams_[stream].frees;
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
  if (!recorded->done && driver_.event_query(driver_.self, recorded->event) == Status::ok) {
    recorded->done = true;
    note_done(recorded);
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

bool Order::query(Wait*& list) noexcept {
  record(list);
  Wait** link = &list;
  while (*link != nullptr) {
    Wait* wait = *link;
    if (wait->recorded != nullptr && query(wait->recorded)) {
      *link = wait->next;
      drop(wait->recorded);
      waits_.give(wait);
    } else {
      link = &wait->next;
    }
  }
  return list == nullptr;
}

Wait* Order::outstanding(bool of_every_stream) noexcept {
  Wait* list = nullptr;
  for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) {
    if (of_every_stream || streams_[stream].done != streams_[stream].frees) add(list, stream);
  }
  record(list);
  return list;
}

void Order::await(const Wait* list) const noexcept {
  for (const Wait* wait = list; wait != nullptr; wait = wait->next) {
    RecordedEvent* recorded = wait->recorded;
    if (recorded == nullptr || recorded->done) continue;
    recorded->done = driver_.event_synchronize(driver_.self, recorded->event) == Status::ok;
  }
}

void Order::finish(Wait*& list) noexcept {
  for (const Wait* wait = list; wait != nullptr; wait = wait->next) {
    if (wait->recorded != nullptr && wait->recorded->done) note_done(wait->recorded);
  }
  clear(list);
}

bool Order::wait_for(std::uint32_t stream, Wait*& list) noexcept {
  if (!record(list)) return false;
  for (const Wait* wait = list; wait != nullptr; wait = wait->next) {
    if (!wait->recorded->done && driver_.stream_wait(driver_.self, streams_[stream].stream,
                                                     wait->recorded->event) != Status::ok) {
      return false;
    }
  }
  clear(list);
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
