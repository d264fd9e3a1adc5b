// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/exponent_pack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/lossless/exponent_pack.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/lossless/exponent_pack-inl.h"
#include "codecs/cpu/lossless/pack_describe-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/lossless/pack_scratch.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/with_pattern.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(describe_block);
HWY_EXPORT(write_block);
HWY_EXPORT(unpack_block);

/// Calls `bool f(first, last, tile, scratch)` for ranges of blocks, in parallel. `tile` has room
/// for a block; null if the layout is contiguous. @return false if a call did, or if memory ran out
template <typename T, typename F>
bool for_ranges(const Description& what, ParallelFor parallel, const F& f) {
  constexpr std::int64_t kGrain = 8;
  const bool gather = !what.layout.is_contiguous();
  std::atomic<bool> good = true;
  for_range(parallel, PackLayout(what.layout.elements()).count, kGrain,
            [&](std::int64_t first, std::int64_t last) {
              cpu::Workspace& work = cpu::workspace();
              auto* const scratch = work.chunk.get<cpu::PackScratch<T>>(1);
              T* const tile = gather ? work.tile.get<T>(kPackElements) : nullptr;
              const bool enough = scratch != nullptr && (!gather || tile != nullptr);
              if (!enough || !f(first, last, tile, *scratch)) good.store(false);
              work.trim();
            });
  return good.load();
}

int elements_of(const PlaneLayout& layout, std::int64_t block) noexcept {
  return static_cast<int>(std::min(kPackElements, layout.elements() - block * kPackElements));
}

/// Calls f(i, its elements, their number, scratch) for each block, in parallel. @return false if
/// memory ran out
template <typename T, typename F>
bool for_blocks(const Description& what, const T* source, ParallelFor parallel, const F& f) {
  return for_ranges<T>(
      what, parallel,
      [&](std::int64_t first, std::int64_t last, T* tile, cpu::PackScratch<T>& scratch) {
        for (std::int64_t i = first; i < last; ++i) {
          const int count = elements_of(what.layout, i);
          const T* x = source + i * kPackElements;
          if (tile != nullptr) {
            cpu::gather_elements(what.layout, sizeof(T), source, i * kPackElements, count, tile);
            x = tile;
          }
          f(i, x, count, scratch);
        }
        return true;
      });
}

/// A block to be written.
struct PlannedBlock {
  PackBlock block;
  std::int64_t offset;  ///< in the payload
};

/// Describes all blocks. @return false if memory ran out
template <typename T>
bool describe_blocks(const Description& what, const T* source, PlannedBlock* planned,
                     ParallelFor parallel) {
  return for_blocks<T>(
      what, source, parallel, [&](std::int64_t i, const T* x, int count, cpu::PackScratch<T>&) {
        planned[i].block = HWY_DYNAMIC_DISPATCH(describe_block)(sizeof(T), x, count);
      });
}

/// Places the blocks one behind the other. @return the size of all
std::int64_t place_blocks(const Description& what, PlannedBlock* planned) {
  const auto element = static_cast<int>(element_size(what.type));
  const PackLayout at(what.layout.elements());
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < at.count; ++i) {
    planned[i].offset = end;
    end += PackSections(planned[i].block, elements_of(what.layout, i), element).size;
  }
  return at.payload + end;
}

/// Writes all blocks, with their places in the index and their descriptions.
template <typename T>
bool write_blocks(const Description& what, const T* source, const PlannedBlock* planned,
                  std::byte* out, ParallelFor parallel) {
  const PackLayout at(what.layout.elements());
  return for_blocks<T>(what, source, parallel,
                       [&](std::int64_t i, const T* x, int count, cpu::PackScratch<T>& scratch) {
                         const auto& [block, offset] = planned[i];
                         std::memcpy(out + PackLayout::kIndex + 8 * i, &offset, 8);
                         std::memcpy(out + at.blocks + 8 * i, &block, 8);
                         HWY_DYNAMIC_DISPATCH(write_block)
                         (sizeof(T), block, x, count, &scratch, out + at.payload + offset);
                       });
}

class ExponentPackCpu final : public ExponentPackCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const auto give = [&](std::size_t /*bytes*/) { return out.data(); };
    return encode_into(what, source, Room(give), key, parallel);
  }

  Encoded encode_into(const Description& what, const void* source, const Room& room,
                      RandomKey /*key*/, ParallelFor parallel) const override {
    cpu::Buffer memory;
    auto* const planned = memory.get<PlannedBlock>(PackLayout(what.layout.elements()).count);
    if (planned == nullptr) return {};
    return with_float_pattern(element_size(what.type), [&]<typename T>(T*) -> Encoded {
      const T* const x = static_cast<const T*>(source);
      if (!describe_blocks(what, x, planned, parallel)) return {};
      const std::int64_t size = place_blocks(what, planned);
      std::byte* const out = room(static_cast<std::size_t>(size));
      if (out == nullptr) return {};
      write_header(what, size, out);
      if (!write_blocks(what, x, planned, out, parallel)) return {};
      return {true, static_cast<std::size_t>(size)};
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    const std::int64_t size = read_header(what, in, reads);
    if (size < 0) return false;
    in = in.first(static_cast<std::size_t>(size));
    return with_float_pattern(element_size(what.type), [&]<typename T>(T*) {
      return for_ranges<T>(
          what, parallel,
          [&](std::int64_t first, std::int64_t last, T* tile, cpu::PackScratch<T>& scratch) {
            for (std::int64_t i = first; i < last; ++i) {
              const int count = elements_of(what.layout, i);
              T* const x = tile != nullptr ? tile : static_cast<T*>(target) + i * kPackElements;
              PackBlock block;
              std::span<const std::byte> bytes;
              if (!find_block(what, in, i, block, bytes) ||
                  !HWY_DYNAMIC_DISPATCH(unpack_block)(sizeof(T), block, bytes.data(), count,
                                                      &scratch, x)) {
                return false;
              }
              if (tile == nullptr) continue;
              cpu::scatter_elements(what.layout, sizeof(T), tile, i * kPackElements, count, target);
            }
            return true;
          });
    });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_exponent_pack_cpu() {
  return std::make_shared<ExponentPackCpu>();
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
