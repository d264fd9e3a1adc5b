// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace fakecuda {

/// A stretch of the file that holds the physical memory of a process's devices: this process's, or
/// another's that shared the stretch. Move-only by convention: the owner gives it back once.
struct Stretch {
  int file = -1;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool imported = false;
  /// State that the processes that share the stretch have in common. Null until it is shared.
  struct Record {
    std::uint64_t magic;
    std::uint64_t bytes;
    std::int32_t device;
    std::atomic<std::int32_t> holders;  ///< opened stretches, over all processes
  }* record = nullptr;
};

/// All functions: @pre the global lock is held.

/// Takes a stretch, which reads as zero. @return nothing when there is no room
std::optional<Stretch> take_stretch(std::size_t bytes);
/// Gives a stretch back. Its pages are freed when no other process holds it.
void give_stretch(const Stretch& stretch);

/// Makes a file descriptor for the stretch, as the driver does. This process and others can import
/// the stretch from it. The caller closes it. @return -1 on failure
int export_stretch(Stretch& stretch, int device);

/// Opens the stretch of a descriptor from export_stretch, which stays the caller's.
/// @param offset where the stretch begins; -1: at the descriptor's position
std::optional<Stretch> import_stretch(int descriptor, std::int64_t offset = -1);

}  // namespace fakecuda
