// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "allocator/driver/driver.h"

namespace cinch::allocator {

/// Blocks that were freed while other streams still use them, as PyTorch's allocator keeps them
/// (insert_events, process_events, synchronize_and_free_events): an event is recorded in each such
/// stream at the free, and the block is free when all of them are done.
template <class Block>
class DeferredFrees {
 public:
  explicit DeferredFrees(const Driver& driver) : driver_(driver) {}
  DeferredFrees(const DeferredFrees&) = delete;
  DeferredFrees& operator=(const DeferredFrees&) = delete;
  ~DeferredFrees() {
    for (const auto& [stream, queue] : queues_) {
      for (const Entry& entry : queue) driver_.event_destroy(driver_.self, entry.event);
    }
    for (const Event event : spare_) driver_.event_destroy(driver_.self, event);
  }

  void add(Block* block, const std::vector<std::uint32_t>& streams) {
    left_[block] = streams.size();
    for (const std::uint32_t stream : streams) {
      Event event = 0;
      if (spare_.empty()) {
        driver_.event_create(driver_.self, &event);
      } else {
        event = spare_.back();
        spare_.pop_back();
      }
      driver_.event_record(driver_.self, event, stream);
      queues_[stream].push_back({event, block});
    }
  }

  /// Calls `free_block` for each block whose events are done. `wait`: blocks the host until all
  /// are.
  template <class Free>
  void process(bool wait, const Free& free_block) {
    for (auto& [stream, queue] : queues_) {
      while (!queue.empty()) {
        const Entry entry = queue.front();
        if (wait) {
          driver_.event_synchronize(driver_.self, entry.event);
        } else if (driver_.event_query(driver_.self, entry.event) != Status::ok) {
          break;
        }
        queue.pop_front();
        spare_.push_back(entry.event);
        if (--left_.at(entry.block) > 0) continue;
        left_.erase(entry.block);
        free_block(entry.block);
      }
    }
  }

 private:
  struct Entry {
    Event event;
    Block* block;
  };
  const Driver driver_;
  std::map<std::uint32_t, std::deque<Entry>> queues_;  // by stream
  std::map<Block*, std::size_t> left_;                 // events that each block waits for
  std::vector<Event> spare_;
};

}  // namespace cinch::allocator
