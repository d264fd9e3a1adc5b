// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/device.h"
#include "codecs/cuda/elements/elements.cuh"

/// Streams of codes: element k's bits are [k * bits, (k + 1) * bits), lowest first.
namespace cinch::codecs::cuda {

/// Stores the `count` lowest bytes of `packed` (1 to 8) at any address, in one access if possible.
/// Threads of a warp do not diverge if their addresses differ by `count`.
__device__ __forceinline__ void store_bytes(std::byte* at, std::uint64_t packed, int count) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (count == 2 && address % 2 == 0) {
    *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(packed);
  } else if (count == 4 && address % 4 == 0) {
    *reinterpret_cast<std::uint32_t*>(at) = static_cast<std::uint32_t>(packed);
  } else if (count == 8 && address % 8 == 0) {
    *reinterpret_cast<std::uint64_t*>(at) = packed;
  } else {
    for (int i = 0; i < count; ++i) at[i] = static_cast<std::byte>(packed >> (8 * i));
  }
}

/// Loads the `count` bytes at `at` (1 to 8) as a little-endian number.
__device__ __forceinline__ std::uint64_t load_bytes(const std::byte* at, int count) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (count == 2 && address % 2 == 0) return *reinterpret_cast<const std::uint16_t*>(at);
  if (count == 4 && address % 4 == 0) return *reinterpret_cast<const std::uint32_t*>(at);
  if (count == 8 && address % 8 == 0) return *reinterpret_cast<const std::uint64_t*>(at);
  std::uint64_t packed = 0;
  for (int i = 0; i < count; ++i)
    packed |= std::uint64_t{static_cast<std::uint8_t>(at[i])} << (8 * i);
  return packed;
}

/// Whether `bits` bytes at `at`, and at each multiple of `bits` from there, can be loaded or stored
/// at once.
__device__ __forceinline__ bool can_access_at_once(const std::byte* at, int bits) {
  const auto number = static_cast<unsigned>(bits);
  const auto address = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at));
  return ((number | address) & (number - 1)) == 0 && number > 1;
}

/// Loads the bits of a stretch's codes, `bits` bytes. @param aligned can_access_at_once
__device__ __forceinline__ std::uint64_t load_stretch_bits(const std::byte* at, int bits,
                                                           bool aligned) {
  if (aligned) {  // 2, 4 or 8 bits
    if (bits < 4) return *reinterpret_cast<const std::uint16_t*>(at);
    if (bits < 8) return *reinterpret_cast<const std::uint32_t*>(at);
    return *reinterpret_cast<const std::uint64_t*>(at);
  }
  std::uint64_t packed = 0;
#pragma unroll 1
  for (int i = 0; i < bits; ++i) {
    packed |= std::uint64_t{static_cast<std::uint8_t>(at[i])} << (8 * i);
  }
  return packed;
}

/// The reverse.
__device__ __forceinline__ void store_stretch_bits(std::byte* at, int bits, bool aligned,
                                                   std::uint64_t packed) {
  if (aligned) {
    if (bits < 4) {
      *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(packed);
    } else if (bits < 8) {
      *reinterpret_cast<std::uint32_t*>(at) = static_cast<std::uint32_t>(packed);
    } else {
      *reinterpret_cast<std::uint64_t*>(at) = packed;
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < bits; ++i) {
    at[i] = static_cast<std::byte>(packed);
    packed >>= 8;
  }
}

/// Joins eight codes of `bits` bits, the first in the lowest bits. @pre bits * 8 <= 64
__device__ __forceinline__ std::uint64_t pack_stretch(const std::uint32_t (&codes)[kStretch],
                                                      int bits) {
  std::uint64_t packed = 0;
  for (int i = 0; i < kStretch; ++i) packed |= std::uint64_t{codes[i]} << (i * bits);
  return packed;
}

/// Stores the first `count` of eight codes of `bits` bits (at most 32) in whole bytes.
__device__ __forceinline__ void store_wide_stretch(std::byte* at,
                                                   const std::uint32_t (&codes)[kStretch], int bits,
                                                   int count) {
  std::uint64_t waiting = 0;  // never overflows: below 32 bits wait, at most 32 are added
  int filled = 0;
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if (j >= count) continue;
    waiting |= std::uint64_t{codes[j]} << filled;
    filled += bits;
    if (filled < 32) continue;
    store_bytes(at, waiting & 0xFFFFFFFFU, 4);
    at += 4;
    waiting >>= 32;
    filled -= 32;
  }
  if (filled > 0) store_bytes(at, waiting, (filled + 7) / 8);
}

/// Sets the bits of a code that begins at `bit`, where `words` are zero. Threads may share words.
__device__ __forceinline__ void or_code(std::uint32_t* words, int bit, std::uint32_t code) {
  const std::uint64_t shifted = std::uint64_t{code} << (bit % 32);
  atomicOr(&words[bit / 32], static_cast<std::uint32_t>(shifted));
  const auto rest = static_cast<std::uint32_t>(shifted >> 32);
  if (rest != 0) atomicOr(&words[bit / 32 + 1], rest);
}

/// Loads codes [k, k + count) of a stream, the first in the lowest bits. @pre count * bits <= 64
__device__ __forceinline__ std::uint64_t load_codes(const std::byte* stream, std::int64_t k,
                                                    int bits, int count) {
  const std::int64_t bit = k * bits;
  const int skipped = static_cast<int>(bit % 8);
  const int wanted = count * bits;
  const int bytes = (skipped + wanted + 7) / 8;
  const std::byte* const at = stream + bit / 8;
  std::uint64_t packed = load_bytes(at, bytes < 8 ? bytes : 8) >> skipped;
  if (bytes > 8) packed |= std::uint64_t{static_cast<std::uint8_t>(at[8])} << (64 - skipped);
  return packed;
}

}  // namespace cinch::codecs::cuda
