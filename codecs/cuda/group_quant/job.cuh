// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/logical.cuh"
#include "codecs/cuda/blocks/side_by_side.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/elements/stretch_draws.cuh"
#include "codecs/formats/group_quant.h"

namespace cinch::codecs::cuda {

inline constexpr unsigned kGroupThreads = 256;

/// What codes are of: elements, their roots, or elements above 0 (GroupQuantParameters::zero_code).
enum class CodesOf { elements, roots, above_zero };

/// Arguments of the group_quant kernels.
struct GroupJob {
  LogicalOrder order;
  std::int64_t planes;
  std::int32_t size;    ///< elements of a plane
  std::int32_t group;   ///< elements of a group
  std::int32_t groups;  ///< groups of a plane
  std::int32_t slots;   ///< stretches of a plane's groups, as if the last group were full
  FastDivide by_slots, by_group_slots, by_groups;
  std::int64_t all_slots;    ///< of all planes
  std::uint32_t half_shift;  ///< if fits_warp: logarithm of half a group's stretches
  bool vectors;
  bool linear;  ///< all planes have the same bits and only full groups: slots are stretches
  bool few;     ///< all_slots is below 2^31
  bool mixed;
  bool subtractive;
  float floor;  ///< encode only
  CodesOf codes_of;
  bool signs;  ///< decode, of CodesOf::above_zero: 1 and 0 are wanted
  int bits;
  std::int64_t plane_bits_at, ranges_at, codes_at;
  std::int64_t end;  ///< encode: encoded size; decode: size of the bytes given
  RoundKeys keys;
  RandomKey key;  ///< encode only: decoding reads it from the bytes

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
        by_groups(groups),
        all_slots(planes * slots),
        half_shift(
            static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint32_t>(group)) - 5)),
        vectors(order.contiguous && is_vector_aligned(memory) && size % kStretch == 0),
        linear(what.plane_bits.empty() && size % group == 0),
        few(all_slots < std::int64_t{1} << 31),
        mixed(!what.plane_bits.empty()),
        subtractive(parameters.subtractive),
        floor(parameters.floor),
        codes_of(parameters.roots       ? CodesOf::roots
                 : parameters.zero_code ? CodesOf::above_zero
                                        : CodesOf::elements),
        signs(false),
        bits(parameters.bits),
        plane_bits_at(sections.plane_bits_at),
        ranges_at(sections.ranges),
        codes_at(sections.codes),
        end(sections.end),
        keys(random_key),
        key(random_key) {}

 public:
  /// The group size that kernels use. All sizes that hold a whole plane give the same bytes; a
  /// warp's size is the fastest of them.
  static std::int32_t group_of(std::int64_t wanted, std::int32_t plane_size) noexcept {
    constexpr std::int64_t kWarpGroup = kWarp * kStretch;
    const bool fills = wanted <= kWarpGroup || wanted < plane_size;
    if (fills) return static_cast<std::int32_t>(wanted);
    return plane_size <= kWarpGroup ? std::int32_t{kWarpGroup} : (plane_size + 7) / 8 * 8;
  }

  /// A group's range as it is stored, or range_of_signs() in its place.
  template <CodesOf kOf>
  __device__ __forceinline__ std::uint32_t range_word(const std::byte* in,
                                                      std::int64_t group_number) const {
    if (kOf == CodesOf::above_zero && signs) {
      return range_of_signs().lo | std::uint32_t{range_of_signs().step} << 16;
    }
    return *reinterpret_cast<const std::uint32_t*>(in + ranges_at + 4 * group_number);
  }

  /// Whether half a warp, or less, holds a whole group, two stretches a lane.
  bool fits_warp() const noexcept {
    return group >= 2 * kStretch && group <= std::int32_t{kWarp} * kStretch &&
           (group & (group - 1)) == 0;
  }

  /// The bits for which kernels have code of their own, for groups of 256 elements; else 0. Codes
  /// of three bits are stored in words, four stretches together.
  CINCH_HD int usual_bits() const noexcept {
    const bool usual = !mixed && group == std::int32_t{kWarp} * kStretch && bits >= 2 &&
                       bits <= 4 && size % kStretch == 0;
    return usual && (bits != 3 || size % (4 * kStretch) == 0) ? bits : 0;
  }
};

/// The bits of a plane, and where its codes begin.
struct PlaneCodes {
  int bits;
  std::int64_t at;
};

/// @param encoded, offsets read only for mixed planes: the planes' bits, and group_offsets' result
__device__ __forceinline__ PlaneCodes plane_codes(const GroupJob& job, const std::byte* encoded,
                                                  const std::int64_t* offsets, std::int64_t plane) {
  if (!job.mixed) {
    return {job.bits, job.codes_at + plane * group_quant_code_bytes(job.size, job.bits)};
  }
  // Clamped so that damaged bytes cause no access out of bounds; group_offsets clamps the same way.
  const int bits = static_cast<int>(encoded[job.plane_bits_at + plane]);
  return {bits < 1 ? 1 : bits > 8 ? 8 : bits, job.codes_at + offsets[plane]};
}

/// Stores and loads the key that dithered bytes begin with. A word at a time, as alignment allows.
__device__ __forceinline__ void store_key(const GroupJob& job, std::byte* out) {
  auto* const words = reinterpret_cast<std::uint32_t*>(out);
  words[0] = job.key.seed;
  words[1] = job.key.entry;
  words[2] = static_cast<std::uint32_t>(job.key.step);
  words[3] = static_cast<std::uint32_t>(job.key.step >> 32);
}
__device__ __forceinline__ RandomKey load_key(const std::byte* in) {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(in);
  return {words[0], words[1], words[2] | std::uint64_t{words[3]} << 32};
}

/// The stretches that a block of threads takes: consecutive slots, plane after plane.
class SlotPlace {
 public:
  __device__ __forceinline__ SlotPlace(const GroupJob& job, std::int64_t first_slot)
      : plane(first_slot / job.slots),
        slot_(static_cast<std::uint32_t>(first_slot % job.slots)),
        elements(job.order, plane * job.size) {}

  /// @return the plane, from `plane` on, of the block's slot `i`; `slot` becomes its number there
  __device__ __forceinline__ std::uint32_t locate(const GroupJob& job, std::uint32_t i,
                                                  std::uint32_t& slot) const {
    slot = slot_ + i;
    return job.by_slots.split(slot);
  }

  std::int64_t plane;

 private:
  std::uint32_t slot_;

 public:
  BlockPlace elements;  ///< begins at the first element of `plane`
};

}  // namespace cinch::codecs::cuda
