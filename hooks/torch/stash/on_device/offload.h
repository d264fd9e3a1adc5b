// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include "hooks/torch/stash/device/pinned_pool.h"
#include "hooks/torch/stash/on_device/on_device.h"

/// Copies between a device and page-locked memory, on two streams of Cinch's own for each device:
/// the two directions and the program's work overlap. The host waits for none of them.
namespace cinch::hooks {

/// Allocates page-locked memory through libcinch_cuda.so, and says what the host has available.
PinnedPool::Host pinned_host() noexcept;

/// How many processes torchrun started on this host; 1 if it did not start this one.
unsigned processes_here() noexcept;

/// Enqueues the copy of the entry's bytes, encoded or raw, to the host, and gives up the device's
/// memory as of that copy. The caller must drop a raw storage.
/// @return false when the host has no memory for it, or the copy could not be enqueued
/// @pre entry.device is set, the entry's mutex is held, state is encoded or kept, nothing of it is
/// on the host, and only the stash owns the storage of a kept entry
bool move_to_host(Entry& entry, PinnedPool& pool);

/// Enqueues copying encoded bytes back. The copy is given up once decoded.
/// @throws c10::Error when there is no memory
/// @pre the entry's mutex is held, state is encoded, it is on the host and not fetched
void fetch_encoded(Entry& entry);

/// Some of the bytes of an entry's piece.
struct Part {
  std::size_t first;
  std::size_t bytes;
};

/// Enqueues the copy of a part of an entry's piece to `target`, in device memory.
/// @throws c10::Error when it can't be enqueued
void copy_back(OnDevice& held, void* target, const Part& part, const c10::Stream& stream);

/// Adds such a copy to the graph that `stream` is captured into. The piece must stay the entry's
/// while the entry lives. The host waits until the piece is written.
void copy_in_capture(OnDevice& held, void* target, const Part& part, const c10::Stream& stream);

/// Enqueues copying a raw storage back. @throws c10::Error when there is no memory
/// @pre the entry's mutex is held, state is moved
c10::Storage fetch_raw(Entry& entry);

}  // namespace cinch::hooks
