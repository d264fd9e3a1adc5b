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

// pre: the fence has happened
void Order::passed(StreamState& state) noexcept {
  state.done = state.fenced;
  drop(state.fence);
  state.fence = nullptr;
}

void Order::look(std::uint32_t index) noexcept {
  if (driver_.synchronous) return;
  StreamState& state = streams_[index];
  if (state.fence != nullptr && happened(state.fence)) passed(state);
  if (state.fence != nullptr || state.done == state.frees) return;
  state.fence = moment(index);
  if (state.fence == nullptr) return;
  state.fenced = state.frees;
  if (happened(state.fence)) passed(state);
}

bool Order::finish(std::uint32_t index) noexcept {
  look(index);
  StreamState& state = streams_[index];
  // Twice: the fence that is waited for may be older than the last free.
  for (int i = 0; i < 2 && state.fence != nullptr; ++i) {
    if (!finish(state.fence)) return false;
    look(index);
  }
  return driver_.synchronous || state.done == state.frees;
}

Moment* Order::moment(std::uint32_t stream) noexcept {
  Moment* moment = moments_.take();
  if (moment == nullptr) return nullptr;
  bool good = true;
  if (!spare_.empty()) {
    moment->event = spare_.back();
    spare_.pop_back();
  } else {
    good = driver_.event_create(driver_.self, &moment->event) == Status::ok;
    if (!good) moment->event = 0;
  }
  if (!good ||
      driver_.event_record(driver_.self, moment->event, streams_[stream].stream) != Status::ok) {
    if (good) {
      drop(moment);
    } else {
      moments_.give(moment);
    }
    return nullptr;
  }
  return moment;
}

void Order::drop(Moment* moment) noexcept {
  try {
    spare_.push_back(moment->event);
  } catch (const std::bad_alloc&) {
    driver_.event_destroy(driver_.self, moment->event);
  }
  moments_.give(moment);
}

bool Order::happened(Moment* moment) noexcept {
  if (!moment->done) moment->done = driver_.event_query(driver_.self, moment->event) == Status::ok;
  return moment->done;
}

bool Order::finish(Moment* moment) noexcept {
  if (!moment->done) {
    moment->done = driver_.event_synchronize(driver_.self, moment->event) == Status::ok;
  }
  return moment->done;
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
    if (wait->moment != nullptr) drop(wait->moment);
    waits_.give(wait);
  }
}

bool Order::record(Wait* list) noexcept {
  bool all = true;
  for (Wait* wait = list; wait != nullptr; wait = wait->next) {
    if (wait->moment == nullptr) wait->moment = moment(wait->stream);
    all = all && wait->moment != nullptr;
  }
  return all;
}

bool Order::settle(Wait*& list) noexcept {
  record(list);
  Wait** link = &list;
  while (*link != nullptr) {
    Wait* wait = *link;
    if (wait->moment != nullptr && happened(wait->moment)) {
      *link = wait->next;
      drop(wait->moment);
      waits_.give(wait);
    } else {
      link = &wait->next;
    }
  }
  return list == nullptr;
}

bool Order::wait_for(std::uint32_t stream, Wait*& list) noexcept {
  if (!record(list)) return false;
  while (list != nullptr) {
    Wait* wait = list;
    if (!wait->moment->done && driver_.stream_wait(driver_.self, streams_[stream].stream,
                                                   wait->moment->event) != Status::ok) {
      return false;
    }
    list = wait->next;
    drop(wait->moment);
    waits_.give(wait);
  }
  return true;
}

bool Order::wait_for_stream(std::uint32_t stream, std::uint32_t other) noexcept {
  if (driver_.synchronous || stream == other) return true;
  Moment* now = moment(other);
  if (now == nullptr) return false;
  const Status status = driver_.stream_wait(driver_.self, streams_[stream].stream, now->event);
  drop(now);
  return status == Status::ok;
}

bool Order::finish(Wait*& list) noexcept {
  record(list);
  Wait** link = &list;
  while (*link != nullptr) {
    Wait* wait = *link;
    if (wait->moment != nullptr && finish(wait->moment)) {
      *link = wait->next;
      drop(wait->moment);
      waits_.give(wait);
    } else {
      link = &wait->next;
    }
  }
  return list == nullptr;
}

}  // namespace cinch::allocator
