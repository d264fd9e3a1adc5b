// SPDX-License-Identifier: Apache-2.0
#include "codecs/exponent_pack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/lossless/exponent_pack.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/lossless/exponent_pack-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/compaction.h"
#include "codecs/cpu/lossless/pack_scratch.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/with_pattern.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(pack_block);
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

/// Writes the blocks' sizes to the index, and a range's blocks one behind the other, starting where
/// the first would lie if all before it were whole (cpu/compaction.h).
template <typename T>
bool encode_blocks(const Description& what, const T* source, std::byte* out, ParallelFor parallel) {
  const PackLayout at(what.layout.elements());
  return for_ranges<T>(
      what, parallel,
      [&](std::int64_t first, std::int64_t last, T* tile, cpu::PackScratch<T>& scratch) {
        std::byte* next = out + at.payload + first * kPackElements * std::int64_t{sizeof(T)};
        for (std::int64_t i = first; i < last; ++i) {
          const int count = elements_of(what.layout, i);
          const T* x = source + i * kPackElements;
          if (tile != nullptr) {
            cpu::gather_elements(what.layout, sizeof(T), source, i * kPackElements, count, tile);
            x = tile;
          }
          const PackBlock block =
              HWY_DYNAMIC_DISPATCH(pack_block)(sizeof(T), x, count, &scratch, next);
          const auto size = static_cast<std::uint64_t>(PackSections(block, count, sizeof(T)).size);
          const std::uint64_t entry = size | (i == first ? cpu::kTaskBegin : 0);
          std::memcpy(out + PackLayout::kIndex + 8 * i, &entry, 8);
          std::memcpy(out + at.blocks + 8 * i, &block, 8);
          next += size;
        }
        return true;
      });
}

class ExponentPackCpu final : public ExponentPackCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const PackLayout at(what.layout.elements());
    const bool good = with_float_pattern(element_size(what.type), [&]<typename T>(T*) {
      return encode_blocks(what, static_cast<const T*>(source), out.data(), parallel);
    });
    if (!good) return {};
    const std::int64_t room = kPackElements * std::int64_t(element_size(what.type));
    const std::int64_t size =
        at.payload + cpu::close_gaps(out.data() + at.payload, out.data() + PackLayout::kIndex,
                                     at.count, [room](std::int64_t i) { return i * room; });
    write_header(what, size, out.data());
    return {true, static_cast<std::size_t>(size)};
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
