// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/rescue.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/figures/listeners.h"

namespace cinch::hooks {

std::size_t Rescue::make_room(int device, std::size_t bytes) {
  if (AtWork::here()) return 0;
  Holding& holding = holdings_.of_device(device);
  // Giving up read-ahead and samples costs time and a guard's look only: not counted as a rescue.
  const std::size_t given_up = holding.give_up(device, bytes);
  if (given_up >= bytes || !policy_.settings().rescue.enabled) return given_up;
  Statistics::Rescue by;
  const auto missing = [&] { return bytes - std::min(bytes, given_up + by.all()); };
  by.encoded = settler_.encode_early(device, missing());
  if (missing() != 0) by.harder = holding.encode_harder(device, missing());
  if (missing() != 0) by.moved = holding.move_out(device, missing());
  if (by.all() != 0) note(device, by);
  if (by.all() != 0 || given_up != 0) return given_up + by.all();
  return holding.release_reserve(device);
}

void Rescue::note(int device, const Statistics::Rescue& by) {
  statistics_.rescued(by);
  const auto as_printed = [](std::uint64_t bytes) { return static_cast<std::size_t>(bytes); };
  tell(telemetry::EventKind::rescue,
       "memory had run out: %zu bytes freed, %zu of them by compressing harder, %zu by "
       "moving to the host",
       as_printed(by.all()), as_printed(by.harder), as_printed(by.moved));
  std::string detail = std::to_string(by.encoded) + " bytes freed by compressing earlier";
  if (by.harder != 0) detail += ", " + std::to_string(by.harder) + " by compressing harder";
  if (by.moved != 0) detail += ", " + std::to_string(by.moved) + " by moving to the host";
  const std::lock_guard lock(lists_.mutex);
  lists_.timeline.decided("rescue",
                          device == Holding::host ? "host" : "device " + std::to_string(device),
                          std::move(detail));
}

void Rescue::note_given(int device, std::size_t bytes) {
  statistics_.given(bytes);
  tell(telemetry::EventKind::rescue, "memory had run out: other processes gave back %zu bytes",
       bytes);
  if (AtWork::here()) return;  // this thread may hold the lock
  const std::lock_guard lock(lists_.mutex);
  lists_.timeline.decided("rescue", "device " + std::to_string(device),
                          std::to_string(bytes) + " bytes given back by other processes");
}

}  // namespace cinch::hooks
