// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "api.h"

namespace fakecuda {

/// All device addresses lie in one reservation of the process. So a device pointer is recognized by
/// its value, and an access to freed memory traps. All functions: @pre the global lock is held.

using Address = std::uintptr_t;

constexpr std::size_t page_bytes = std::size_t{2} << 20;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

enum class Kind : std::uint8_t {
  device,    ///< cudaMalloc
  pinned,    ///< cudaHostAlloc, cudaHostRegister
  reserved,  ///< addresses for cuMemMap
  opened,    ///< another process's cudaMalloc
};

struct Region {
  Address address;
  std::size_t bytes;
  int device;
  Kind kind;
  bool ours = true;  ///< for pinned memory: whether it was allocated here
};

/// Whether `pointer` is a device address, mapped or not.
bool is_device_address(const void* pointer);

/// Takes addresses without memory. @return 0 when there are no more
Address take_addresses(std::size_t bytes, std::size_t alignment);
/// Gives addresses back, and unmaps memory that is mapped there.
void give_addresses(Address address, std::size_t bytes);

void add_region(const Region& region);
void remove_region(Address address);
/// The region that holds `pointer`, or null.
const Region* find_region(const void* pointer);

/// Counts physical memory of a device as used. @return false when not enough is free
bool take_memory(int device, std::size_t bytes);
void give_memory(int device, std::size_t bytes);
std::size_t memory_limit();
/// Memory that this process uses.
std::size_t memory_used(int device);
/// Memory that all processes that share the device use (FAKECUDA_SHARED).
std::size_t memory_used_by_all(int device);

/// Whether a range is host memory, or device memory that can be read and written. For memory mapped
/// by cuMemMap: by work of `device`, or of any device if that is -1. Copies of every device can
/// access cudaMalloc's memory.
bool accessible(const void* memory, std::size_t bytes, int device = -1);

/// Called when cudaMalloc's memory is freed. Ends its sharing by cudaIpcGetMemHandle, if any.
void forget_shared(Address address);

/// `accessible` for memory mapped by cuMemMap.
bool mapped(Address address, std::size_t bytes, int device);

void poison(void* memory, std::size_t bytes);
/// Poisons memory that was never accessible before, if poisoning is on.
void poison_fresh(void* memory, std::size_t bytes);

}  // namespace fakecuda
