// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "codecs/codec.h"
#include "hooks/torch/stash/ahead/side_thread.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_keeper.h"
#include "hooks/torch/stash/lists/entry_lists.h"

namespace cinch::hooks {

/// Hands work to the stash's side thread, and does the work that a forked child has no thread for.
/// Thread-safe; no lock of the stash is held.
class SideWork {
 public:
  /// @param uses_side_stream Whether the policy's stream is "side"
  SideWork(bool uses_side_stream, EntryLists& lists, EntryKeeper& keeper);
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;

  bool is_on() const noexcept { return uses_side_stream_; }

  /// Queues the settling of `entry`, after waiting until at most `most_waiting` bytes are queued.
  /// @return false when the caller has to settle it
  bool settle(Entry& entry, std::size_t most_waiting) noexcept;

  /// Queues the decoding of `entry` ahead of backward. @return false when it was not queued
  bool decode(Entry& entry, codecs::Reads reads) noexcept;

  /// Waits until `entry` is settled if it is queued: what backward reads must not depend on how far
  /// the thread got.
  void await_settled(Entry& entry);

  /// Does the jobs that no thread will do any more.
  void do_orphans() noexcept;

  /// Ends the thread, which does its jobs first. A process that ends must not do them itself: its
  /// codecs' workspace is gone by then.
  void stop() noexcept { thread_.stop(); }

  void begin_in_child() { thread_.begin_in_child(); }

 private:
  static void work(void* self, const SideThread::Job& job) noexcept;
  bool submit(const SideThread::Job& job, std::size_t most_waiting) noexcept;

  const bool uses_side_stream_;
  EntryLists& lists_;
  EntryKeeper& keeper_;
  SideThread thread_;
};

}  // namespace cinch::hooks
