// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "api.h"

namespace fakecuda {

/// All device addresses lie in one reservation of the process, so that a device pointer is known by
/// its value, and what was freed traps. All functions: @pre the global lock is held.

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
  bool ours = true;  ///< of pinned memory: whether it was allocated here
};

/// Whether it is a device's address, mapped or not.
bool is_device_address(const void* pointer);

/// Addresses with nothing behind them. @return 0 when there are no more
Address take_addresses(std::size_t bytes, std::size_t alignment);
/// Nothing is behind them any more.
void give_addresses(Address address, std::size_t bytes);

void add_region(const Region& region);
void remove_region(Address address);
/// The region that holds `pointer`, or null.
const Region* find_region(const void* pointer);

/// Counts physical memory of a device. @return false when there isn't so much
bool take_memory(int device, std::size_t bytes);
void give_memory(int device, std::size_t bytes);
std::size_t memory_limit();
/// By this process.
std::size_t memory_used(int device);
/// By all processes that share the device, so that others' count too.
std::size_t memory_used_by_all(int device);

/// Whether a range is host memory, or device memory that can be read and written: mapped memory
/// (cuMemMap) by work of `device`, unless that is -1. What cudaMalloc gave any device's copies
/// reach.
bool accessible(const void* memory, std::size_t bytes, int device = -1);

/// cudaMalloc's memory goes: other processes may have been told of it (cudaIpcGetMemHandle).
void forget_shared(Address address);

/// cuMemMap's part of `accessible`.
bool mapped(Address address, std::size_t bytes, int device);

void poison(void* memory, std::size_t bytes);
/// Poisons memory that was never accessible so far, if that is wanted.
void poison_fresh(void* memory, std::size_t bytes);

}  // namespace fakecuda
