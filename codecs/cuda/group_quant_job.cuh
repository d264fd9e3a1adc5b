// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/bits.cuh"
#include "codecs/cuda/block_scan.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/logical.cuh"
#include "codecs/cuda/stretch_draws.cuh"
#include "codecs/group_quant.h"

namespace cinch::codecs::cuda {

inline constexpr unsigned kGroupThreads = 256;

/// What group_quant's kernels know of an encode or decode.
struct GroupJob {
  LogicalOrder order;
  std::int64_t planes;
  std::int32_t size;    ///< elements of a plane
  std::int32_t group;   ///< elements of a group
  std::int32_t groups;  ///< of a plane
  std::int32_t slots;   ///< stretches of a plane's groups, the last filled up
  FastDivide by_slots, by_group_slots;
  bool vectors;
  bool mixed;
  int bits;
  std::int64_t ranges_at, codes_at;
  std::int64_t end;  ///< bytes of everything, or of what there is to read
  RandomKey key;

  GroupJob(const GroupQuantParameters& parameters, const Description& what, const void* memory,
           RandomKey random_key) noexcept
      : GroupJob(parameters, GroupQuantSections(parameters, what.layout, what.plane_bits), what,
                 memory, random_key) {}

 private:
  GroupJob(const GroupQuantParameters& parameters, const GroupQuantSections& sections,
           const Description& what, const void* memory, RandomKey random_key) noexcept
      : order(what.layout),
        planes(what.layout.planes()),
        size(static_cast<std::int32_t>(what.layout.plane_size())),
        group(group_of(parameters.group, size)),
        groups(static_cast<std::int32_t>(sections.groups)),
        slots(groups * (group / kStretch)),
        by_slots(slots),
        by_group_slots(group / kStretch),
        vectors(order.contiguous && is_vector_aligned(memory) && size % kStretch == 0),
        mixed(!what.plane_bits.empty()),
        bits(parameters.bits),
        ranges_at(sections.ranges),
        codes_at(sections.codes),
        end(sections.end),
        key(random_key) {}

 public:
  /// Groups that no plane fills are as good at any size that holds one; a warp's is the best.
  static std::int32_t group_of(std::int64_t wanted, std::int32_t plane_size) noexcept {
    constexpr std::int64_t kWarpGroup = kWarp * kStretch;
    const bool fills = wanted <= kWarpGroup || wanted < plane_size;
    if (fills) return static_cast<std::int32_t>(wanted);
    return plane_size <= kWarpGroup ? std::int32_t{kWarpGroup} : (plane_size + 7) / 8 * 8;
  }

  /// Whether a warp's lanes hold whole groups, one stretch each.
  bool fits_warp() const noexcept {
    const std::int32_t lanes = group / kStretch;
    return lanes <= std::int32_t{kWarp} && (lanes & (lanes - 1)) == 0;
  }
};

/// The bits of a plane, and where its codes begin.
struct PlaneCodes {
  int bits;
  std::int64_t at;
};

/// `offsets` has the places of mixed planes' codes; `encoded` begins with their bits.
__device__ __forceinline__ PlaneCodes plane_codes(const GroupJob& job, const std::byte* encoded,
                                                  const std::int64_t* offsets, std::int64_t plane) {
  if (!job.mixed) {
    return {job.bits, job.codes_at + plane * group_quant_code_bytes(job.size, job.bits)};
  }
  // Damaged bits must not lead out of bounds: `group_offsets` counted with the same ones.
  const int bits = static_cast<int>(encoded[plane]);
  return {bits < 1 ? 1 : bits > 8 ? 8 : bits, job.codes_at + offsets[plane]};
}

/// Bits of some planes, which travel as a kernel's argument.
struct PlaneBits {
  static constexpr int kCount = 2048;
  std::uint8_t bits[kCount];
};

static __global__ void group_store_bits(const PlaneBits some, int count, std::byte* out) {
  for (int i = threadIdx.x; i < count; i += kGroupThreads) {
    out[i] = static_cast<std::byte>(some.bits[i]);
  }
}

/// Offsets of planes' codes from the first code: an exclusive sum, by one block of threads.
static __global__ void __launch_bounds__(kGroupThreads)
    group_offsets(const GroupJob job, const std::byte* encoded, std::int64_t* offsets) {
  const std::int64_t each = (job.planes + kGroupThreads - 1) / kGroupThreads;
  const std::int64_t begin = threadIdx.x * each;
  const std::int64_t end = begin + each < job.planes ? begin + each : job.planes;
  const auto bytes = [&](std::int64_t plane) {
    const int bits = static_cast<int>(encoded[plane]);
    return group_quant_code_bytes(job.size, bits < 1 ? 1 : bits > 8 ? 8 : bits);
  };
  std::int64_t sum = 0;
  for (std::int64_t p = begin; p < end; ++p) sum += bytes(p);
  std::int64_t total = 0;
  std::int64_t at = BlockScan<kGroupThreads>::exclusive(sum, total);
  for (std::int64_t p = begin; p < end; ++p) {
    offsets[p] = at;
    at += bytes(p);
  }
}

/// The stretches of a block of threads: consecutive slots, planes after planes.
class SlotPlace {
 public:
  __device__ __forceinline__ SlotPlace(const GroupJob& job, std::int64_t first_slot)
      : plane(first_slot / job.slots),
        slot_(static_cast<std::uint32_t>(first_slot % job.slots)),
        elements(job.order, plane * job.size) {}

  /// Finds the plane (from the block's first), and the slot in it, of the block's slot `i`.
  __device__ __forceinline__ std::uint32_t locate(const GroupJob& job, std::uint32_t i,
                                                  std::uint32_t& slot) const {
    slot = slot_ + i;
    return job.by_slots.split(slot);
  }

  std::int64_t plane;

 private:
  std::uint32_t slot_;

 public:
  BlockPlace elements;  ///< from the block's first plane's first element
};

}  // namespace cinch::codecs::cuda
