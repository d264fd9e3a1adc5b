// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace fakecuda {

/// A stretch of the one file in which a process keeps the physical memory of its devices, or, once
/// it was shared, of another process's. Move-only by convention: whoever has it gives it back once.
struct Stretch {
  int file = -1;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool imported = false;
  /// What the processes that share it know in common; null while it was never shared.
  struct Record {
    std::uint64_t magic;
    std::uint64_t bytes;
    std::int32_t device;
    std::atomic<std::int32_t> holders;  ///< processes, each counted once for each time it opened it
  }* record = nullptr;
};

/// All functions: @pre the global lock is held.

/// Nothing when there is no room. Reads as zero.
std::optional<Stretch> take_stretch(std::size_t bytes);
/// Its pages go when no other process has it any more.
void give_stretch(const Stretch& stretch);

/// A new descriptor that stands for the stretch, as the driver makes them: whoever has it, in this
/// process or another, can open it. The caller closes it. @return -1 when that is not possible
int export_stretch(Stretch& stretch, int device);

/// What another process's descriptor stands for. The descriptor stays the caller's. `offset`: where
/// it begins, if that is not the descriptor's own position.
std::optional<Stretch> import_stretch(int descriptor, std::int64_t offset = -1);

}  // namespace fakecuda
