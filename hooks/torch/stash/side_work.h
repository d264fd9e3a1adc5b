// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "codecs/codec.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/entry_keeper.h"
#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/side_thread.h"

namespace cinch::hooks {

/// What the stash leaves to its side thread, and what becomes of it where there is none any more:
/// in a forked child, or after the end. Thread-safe; no lock of the stash's is held.
class SideWork {
 public:
  /// @param uses_side_stream The policy's stream is "side"
  SideWork(bool uses_side_stream, EntryLists& lists, EntryKeeper& keeper);
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;

  bool is_on() const noexcept { return uses_side_stream_; }

  /// Has `entry` settled, first waiting until no more than so many bytes wait for that.
  /// @return false when the caller has to do it
  bool settle(Entry& entry, std::size_t most_waiting) noexcept;

  /// Has it decoded ahead of backward. @return false when nobody will
  bool decode(Entry& entry, codecs::Reads reads) noexcept;

  /// An entry that waits for the thread is waited for: what backward reads must not depend on how
  /// far that got.
  void await_settled(Entry& entry);

  /// Does what no thread will do any more.
  void do_orphans() noexcept;

  /// Ends the thread and does what was left to it.
  void stop() noexcept;

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
