// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/device/pinned_pool.h"

/// Copies between a device and page-locked memory, on two streams of Cinch's own for each device:
/// the two directions and the program's work overlap. The host waits for none of them.
namespace cinch::hooks {

/// Page-locked memory by way of libcinch_cuda.so, and what the host has available.
PinnedPool::Host pinned_host() noexcept;

/// The processes among which torchrun shared this host; 1 when it did not start this one.
unsigned processes_here() noexcept;

/// Enqueues the copy of what `entry` holds on its device, encoded or raw, to the host, and gives
/// the device's memory up as of that copy. A raw storage is left for the caller to drop.
/// @return whether that was done; the reason why not is a lack of host memory
/// @pre entry.device is set, the entry's mutex is held, state is encoded or kept, nothing of it is
/// on the host, and of a kept one the stash is the only owner
bool move_to_host(Entry& entry, PinnedPool& pool);

/// Enqueues the copy back of encoded bytes. They are given up again once decoded.
/// @throws c10::Error when there is no memory
/// @pre the entry's mutex is held, state is encoded, it is on the host and not fetched
void fetch_encoded(Entry& entry);

/// Has the graph that `stream` is captured into copy an entry's piece to `target`. The piece is
/// then never given to another entry while this one lives. The host waits for the copy to the host.
void copy_in_capture(OnDevice& held, void* target, std::size_t bytes, const c10::Stream& stream);

/// Enqueues the copy back of a raw storage. @throws c10::Error when there is no memory
/// @pre the entry's mutex is held, state is moved
c10::Storage fetch_raw(Entry& entry);

}  // namespace cinch::hooks
