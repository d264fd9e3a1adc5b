// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/ahead/side_work.h"

#include <limits>
#include <mutex>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"

namespace cinch::hooks {

SideWork::SideWork(bool uses_side_stream, EntryLists& lists, EntryKeeper& keeper)
    : uses_side_stream_(uses_side_stream), lists_(lists), keeper_(keeper), thread_(work, this) {
  register_fork_lock(thread_.mutex());
}

void SideWork::work(void* self, const SideThread::Job& job) noexcept {
  EntryKeeper& keeper = static_cast<SideWork*>(self)->keeper_;
  if (job.kind == SideThread::Job::Kind::settle) {
    keeper.settle(*job.entry, codecs::serial_for, EntryKeeper::When::room);
  } else {
    keeper.decode_ahead(*job.entry, job.reads);
  }
}

bool SideWork::submit(const SideThread::Job& job, std::size_t most_waiting) noexcept {
  bool taken = false;
  if_memory_allows([&] { taken = thread_.submit(job, most_waiting); });
  return taken;
}

bool SideWork::settle(Entry& entry, std::size_t most_waiting) noexcept {
  if (submit({&entry, SideThread::Job::Kind::settle, {}, entry.raw_bytes}, most_waiting)) {
    return true;
  }
  do_orphans();
  return false;
}

bool SideWork::decode(Entry& entry, codecs::Reads reads) noexcept {
  constexpr auto never_wait = std::numeric_limits<std::size_t>::max();
  return submit({&entry, SideThread::Job::Kind::decode, reads, 0}, never_wait);
}

void SideWork::await_settled(Entry& entry) {
  if (!uses_side_stream_) return;
  bool settling = false;
  {
    const std::lock_guard lock(lists_.mutex);
    settling = entry.place == Entry::Place::settling;
  }
  if (settling && !thread_.wait_for(entry)) do_orphans();
}

void SideWork::do_orphans() noexcept {
  if_memory_allows([&] {
    for (const SideThread::Job& job : thread_.take_orphans()) work(this, job);
  });
}

}  // namespace cinch::hooks
