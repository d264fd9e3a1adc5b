// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/block_scan.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/logical.cuh"
#include "codecs/cuda/running_total.cuh"
#include "codecs/element_bits.h"
#include "codecs/error_bounded.h"

/// A block of threads takes a superblock, a warp a block, a lane an element: bit planes are
/// ballots.
namespace cinch::codecs::cuda {

inline constexpr unsigned kBoundThreads = 256;
inline constexpr int kBoundWarps = kBoundThreads / kWarp;
/// Blocks of a warp.
inline constexpr int kBoundEach = kSuperblockBlocks / kBoundWarps;
static_assert(kBlockElements == kWarp && kBoundThreads >= kSuperblockBlocks);

struct BoundJob {
  LogicalOrder order;
  std::int64_t elements;
  ErrorBoundedSections at;
  ElementType type;
  float bound;

  BoundJob(const Description& what, float error_bound) noexcept
      : order(what.layout),
        elements(what.layout.elements()),
        at(what.layout.elements()),
        type(what.type),
        bound(error_bound) {}
};

/// A lane's element of a block, as the block holds it.
struct BoundCode {
  std::uint32_t planes = 0;  ///< what the planes hold: |code|, or half of it on the fine lattice
  bool sign = false;
  bool half = false;

  BoundCode() = default;
  __device__ __forceinline__ explicit BoundCode(std::uint32_t packed)
      : planes(packed & 0x3FFFFFFFU), sign(packed >> 31 != 0), half((packed >> 30 & 1U) != 0) {}
  __device__ __forceinline__ std::uint32_t packed() const {
    return planes | std::uint32_t{half} << 30 | std::uint32_t{sign} << 31;
  }
};

/// The block's rate, the same in all lanes, and the calling lane's part of it.
template <ElementType type>
__device__ __forceinline__ unsigned choose_rate(const ErrorBound& bound, std::uint32_t bits,
                                                BoundCode& own) {
  using Bits = typename Element<type>::Bits;
  const float magnitude = fabsf(value_of<type>(bits));
  own.sign = (bits >> (8 * sizeof(Bits) - 1)) != 0;
  own.half = false;
  float code = code_magnitude(magnitude, bound.coarse);
  bool is_fine = false;
  if (__all_sync(kAllLanes, is_held(bound, magnitude, code, bound.coarse)) == 0) {
    if (!bound.has_fine) return kRawRate;
    is_fine = true;
    code = code_magnitude(magnitude, bound.fine);
    if (__all_sync(kAllLanes, is_held(bound, magnitude, code, bound.fine)) == 0) return kRawRate;
  }
  const auto whole = static_cast<std::uint32_t>(code);
  own.planes = is_fine ? (whole + 1) / 2 : whole;
  own.half = is_fine && whole % 2 != 0;
  // The largest number has as many bits as all of them joined.
  std::uint32_t joined = own.planes;
  for (int step = 16; step > 0; step /= 2) joined |= __shfl_xor_sync(kAllLanes, joined, step);
  const bool has_signs = __any_sync(kAllLanes, own.sign) != 0;
  return block_rate(32 - __clz(static_cast<int>(joined)), has_signs, is_fine,
                    std::int64_t{sizeof(Bits)});
}

/// Stores a block's planes, 4 bytes a lane. @pre rate != kRawRate
__device__ __forceinline__ void store_planes(unsigned rate, const BoundCode& own,
                                             std::uint32_t* at) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  std::uint32_t word = 0;
  int position = 0;
  const auto add = [&](bool bit) {
    const std::uint32_t plane = __ballot_sync(kAllLanes, bit);
    word = position++ == lane ? plane : word;
  };
  if ((rate & kRateSigns) != 0) add(own.sign);
  if ((rate & kRateHalves) != 0) add(own.half);
  const int planes = static_cast<int>(rate & kRatePlanes);
  for (int bit = 0; bit < planes; ++bit) add((own.planes >> bit & 1U) != 0);
  if (lane < position) at[lane] = word;
}

template <ElementType type>
__global__ void __launch_bounds__(kBoundThreads)
    error_bounded_encode(const BoundJob job, const void* source, RunningTotal* total,
                         std::byte* out, Result* result) {
  using Bits = typename Element<type>::Bits;
  __shared__ std::uint8_t rates[kSuperblockBlocks];
  __shared__ std::int32_t places[kSuperblockBlocks];
  __shared__ std::uint32_t codes[kSuperblockElements];
  const std::int64_t superblock = take_turn(total);
  const std::int64_t first = superblock * kSuperblockElements;
  const auto* const elements = static_cast<const Bits*>(source);
  const BlockPlace place(job.order, first);
  const ErrorBound bound = error_bound_of(type, job.bound);
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const auto load = [&](int block) {
    const std::int64_t i = std::int64_t{block} * kBlockElements + lane;
    return first + i < job.elements ? elements[place.offset(static_cast<std::uint32_t>(i))]
                                    : Bits{0};
  };

  for (int j = 0; j < kBoundEach; ++j) {
    const int block = warp * kBoundEach + j;
    BoundCode own;
    const unsigned rate = choose_rate<type>(bound, load(block), own);
    codes[block * kWarp + lane] = own.packed();
    if (lane == 0) rates[block] = static_cast<std::uint8_t>(rate);
  }
  __syncthreads();

  const std::int64_t left = job.at.blocks - superblock * kSuperblockBlocks;
  const int blocks = left < kSuperblockBlocks ? static_cast<int>(left) : int{kSuperblockBlocks};
  const int t = static_cast<int>(threadIdx.x);
  const int bytes =
      t < blocks ? static_cast<int>(block_bytes(rates[t], std::int64_t{sizeof(Bits)})) : 0;
  int payload = 0;
  const int at = BlockScan<kBoundThreads>::exclusive(bytes, payload);
  if (t < blocks) {
    places[t] = at;
    out[job.at.rates + superblock * kSuperblockBlocks + t] = static_cast<std::byte>(rates[t]);
  }
  const std::int64_t before = add_to_total(total, superblock, payload);
  if (t == 0) {
    reinterpret_cast<std::int64_t*>(out + job.at.kIndex)[superblock] = before;
    if (superblock == job.at.superblocks - 1) {
      const std::int64_t size = job.at.payload + before + payload;
      auto* const header = reinterpret_cast<std::uint32_t*>(out);
      header[0] = kErrorBoundedVersion | static_cast<std::uint32_t>(type) << 8;
      header[1] = float_bits(job.bound);
      reinterpret_cast<std::int64_t*>(out)[1] = job.elements;
      reinterpret_cast<std::int64_t*>(out)[2] = size;
      result->bytes = static_cast<std::uint64_t>(size);
    }
  }
  if (superblock == job.at.superblocks - 1 && job.at.rates + job.at.blocks + t < job.at.payload) {
    out[job.at.rates + job.at.blocks + t] = std::byte{0};
  }

  std::byte* const to = out + job.at.payload + before;
  for (int j = 0; j < kBoundEach; ++j) {
    const int block = warp * kBoundEach + j;
    if (block >= blocks) continue;  // all lanes alike
    const unsigned rate = rates[block];
    if (rate == kRawRate) {
      reinterpret_cast<Bits*>(to + places[block])[lane] = load(block);
    } else {
      store_planes(rate, BoundCode(codes[block * kWarp + lane]),
                   reinterpret_cast<std::uint32_t*>(to + places[block]));
    }
  }
}

/// What an empty tensor encodes to: a header.
static __global__ void error_bounded_empty(const BoundJob job, std::byte* out, Result* result) {
  auto* const header = reinterpret_cast<std::uint32_t*>(out);
  header[0] = kErrorBoundedVersion | static_cast<std::uint32_t>(job.type) << 8;
  header[1] = float_bits(job.bound);
  reinterpret_cast<std::int64_t*>(out)[1] = 0;
  reinterpret_cast<std::int64_t*>(out)[2] = job.at.payload;
  result->bytes = static_cast<std::uint64_t>(job.at.payload);
}

/// A lane's element of a block whose payload is at `from`.
template <ElementType type>
__device__ __forceinline__ std::uint32_t read_element(const ErrorBound& bound, unsigned rate,
                                                      const std::byte* from) {
  using Bits = typename Element<type>::Bits;
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  if (rate == kRawRate) return reinterpret_cast<const Bits*>(from)[lane];
  const int planes = static_cast<int>(rate & kRatePlanes);
  const bool has_signs = (rate & kRateSigns) != 0;
  const bool is_fine = (rate & kRateHalves) != 0;
  const int words = planes + static_cast<int>(has_signs) + static_cast<int>(is_fine);
  const std::uint32_t word = lane < words ? reinterpret_cast<const std::uint32_t*>(from)[lane] : 0U;
  int position = 0;
  const auto next = [&] { return (__shfl_sync(kAllLanes, word, position++) >> lane & 1U) != 0; };
  const bool sign = has_signs && next();
  const bool half = is_fine && next();
  std::uint32_t code = 0;
  for (int bit = 0; bit < planes; ++bit) code |= std::uint32_t{next()} << bit;
  if (is_fine && code != 0) code = 2 * code - static_cast<std::uint32_t>(half);
  const float magnitude = value_magnitude(type, static_cast<float>(code), bound.lattice(is_fine));
  return bits_of<type>(sign ? -magnitude : magnitude);
}

template <ElementType type>
__global__ void __launch_bounds__(kBoundThreads)
    error_bounded_decode(const BoundJob job, const std::byte* in, std::int64_t in_size, Reads reads,
                         void* target) {
  using Bits = typename Element<type>::Bits;
  __shared__ std::int32_t places[kSuperblockBlocks];
  const std::int64_t superblock = blockIdx.x;
  const std::int64_t left = job.at.blocks - superblock * kSuperblockBlocks;
  const int blocks = left < kSuperblockBlocks ? static_cast<int>(left) : int{kSuperblockBlocks};
  const auto* const rates =
      reinterpret_cast<const std::uint8_t*>(in + job.at.rates) + superblock * kSuperblockBlocks;
  const int t = static_cast<int>(threadIdx.x);
  const bool good = t >= blocks || is_rate(rates[t]);
  const int bytes =
      t < blocks && good ? static_cast<int>(block_bytes(rates[t], std::int64_t{sizeof(Bits)})) : 0;
  int payload = 0;
  const int at = BlockScan<kBoundThreads>::exclusive(bytes, payload);
  if (t < blocks) places[t] = good ? at : -1;
  __syncthreads();
  const std::int64_t begin = reinterpret_cast<const std::int64_t*>(in + job.at.kIndex)[superblock];
  const std::int64_t room = in_size - job.at.payload;
  // Damaged bytes restore nothing; 4-byte words are never read from elsewhere than they are stored.
  if (begin < 0 || begin % 4 != 0 || begin > room - payload) return;
  const float stated = float_of_bits(reinterpret_cast<const std::uint32_t*>(in)[1]);
  if (!(stated > 0.0F) || !(stated <= 0x1.FFFFFEp127F)) return;

  const ErrorBound bound = error_bound_of(type, stated);
  const std::byte* const from = in + job.at.payload + begin;
  const std::int64_t first = superblock * kSuperblockElements;
  const BlockPlace place(job.order, first);
  const int warp = t / int{kWarp};
  const int lane = t % int{kWarp};
  for (int j = 0; j < kBoundEach; ++j) {
    const int block = warp * kBoundEach + j;
    if (block >= blocks || places[block] < 0) continue;  // all lanes alike
    std::uint32_t bits = read_element<type>(bound, rates[block], from + places[block]);
    if (reads == Reads::sign) {
      const float x = value_of<type>(bits);
      if (x == x) bits = x > 0.0F ? bits_of_one(type) : 0U;
    }
    const std::int64_t i = std::int64_t{block} * kBlockElements + lane;
    if (first + i < job.elements) {
      static_cast<Bits*>(target)[place.offset(static_cast<std::uint32_t>(i))] =
          static_cast<Bits>(bits);
    }
  }
}

}  // namespace cinch::codecs::cuda
