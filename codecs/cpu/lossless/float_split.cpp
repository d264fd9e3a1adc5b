// SPDX-License-Identifier: Apache-2.0
#include "codecs/float_split.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/lossless/float_split.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/lossless/float_split-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/float_split_chunk.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(find_nonzeros);
HWY_EXPORT(pack_nonzeros);
HWY_EXPORT(spread_nonzeros);
HWY_EXPORT(split);
HWY_EXPORT(merge);

SplitKernels kernels() {
  return {HWY_DYNAMIC_DISPATCH(find_nonzeros), HWY_DYNAMIC_DISPATCH(pack_nonzeros),
          HWY_DYNAMIC_DISPATCH(spread_nonzeros), HWY_DYNAMIC_DISPATCH(split),
          HWY_DYNAMIC_DISPATCH(merge)};
}

/// Marks, in the table of ends while it holds sizes, a chunk that another thread began with.
constexpr std::uint64_t kBegins = std::uint64_t{1} << 63;

class FloatSplitCpu final : public FloatSplitCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    write_header(what.type, out.data());
    std::byte* const table = out.data() + kSplitHeaderBytes;
    std::byte* const bodies = out.data() + bodies_offset(what.layout);
    const bool good = for_chunks(what, parallel, [&](std::int64_t first, auto& chunks) {
      // A range's chunks lie one behind the other, from where the first would if those before it
      // had not been compressed.
      std::byte* next = bodies + first * split_chunk_bytes(size, kSplitChunk);
      chunks([&](std::int64_t i, std::int64_t n, std::byte* gathered, SplitScratch scratch) {
        const void* x =
            static_cast<const std::byte*>(source) + i * kSplitChunk * std::int64_t(size);
        if (gathered != nullptr) {
          cpu::gather_elements(what.layout, size, source, i * kSplitChunk, n, gathered);
          x = gathered;
        }
        const std::int64_t bytes = encode_split_chunk(kernels(), size, x, n, next, scratch);
        next += bytes;
        const std::uint64_t entry = static_cast<std::uint64_t>(bytes) | (i == first ? kBegins : 0);
        std::memcpy(table + 8 * i, &entry, 8);
        return true;
      });
    });
    if (!good) return {};
    const std::uint64_t end = close_gaps(size, chunk_count(what.layout), table, bodies);
    return {true, static_cast<std::size_t>(bodies_offset(what.layout)) + end};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in, reads)) return false;
    const std::size_t size = element_size(what.type);
    std::atomic<bool> good = true;
    const bool enough = for_chunks(what, parallel, [&](std::int64_t /*first*/, auto& chunks) {
      chunks([&](std::int64_t i, std::int64_t n, std::byte* gathered, SplitScratch scratch) {
        void* x = static_cast<std::byte*>(target) + i * kSplitChunk * std::int64_t(size);
        if (gathered != nullptr) x = gathered;
        if (!good.load(std::memory_order_relaxed) ||
            !decode_split_chunk(kernels(), size, chunk_bytes(what.layout, in, i), n, x, scratch)) {
          good.store(false, std::memory_order_relaxed);
          return false;
        }
        if (gathered != nullptr) {
          cpu::scatter_elements(what.layout, size, gathered, i * kSplitChunk, n, target);
        }
        return true;
      });
    });
    return enough && good.load();
  }

 private:
  /// Calls `range(first, chunks)` for ranges of chunks, in parallel; `chunks(f)` then calls
  /// `bool f(index, elements, memory for them where they aren't contiguous, scratch)` for each
  /// until it says false. @return false when memory ran out
  template <class F>
  static bool for_chunks(const Description& what, ParallelFor parallel, const F& range) {
    const std::size_t size = element_size(what.type);
    const bool gather = !what.layout.is_contiguous();
    std::atomic<bool> enough = true;
    for_range(parallel, chunk_count(what.layout), 1, [&](std::int64_t first, std::int64_t last) {
      cpu::Workspace& work = cpu::workspace();
      auto* const memory = work.chunk.get<std::byte>(SplitScratch::bytes(size));
      auto* const gathered =
          gather ? work.tile.get<std::byte>(kSplitChunk * std::int64_t(size)) : nullptr;
      if (memory == nullptr || (gather && gathered == nullptr)) {
        enough.store(false);
        return;
      }
      const SplitScratch scratch(memory, size);
      const auto chunks = [&](const auto& f) {
        for (std::int64_t i = first; i < last; ++i) {
          const std::int64_t n = std::min(kSplitChunk, what.layout.elements() - i * kSplitChunk);
          if (!f(i, n, gathered, scratch)) return;
        }
      };
      range(first, chunks);
      work.trim();
    });
    return enough.load();
  }

  /// Moves the chunks together and makes sizes into ends. @return the last end
  static std::uint64_t close_gaps(std::size_t size, std::int64_t count, std::byte* table,
                                  std::byte* bodies) noexcept {
    std::uint64_t end = 0;
    const std::byte* from = bodies;
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint64_t entry;
      std::memcpy(&entry, table + 8 * i, 8);
      if ((entry & kBegins) != 0) from = bodies + i * split_chunk_bytes(size, kSplitChunk);
      const std::uint64_t bytes = entry & ~kBegins;
      if (bodies + end != from) std::memmove(bodies + end, from, bytes);
      from += bytes;
      end += bytes;
      std::memcpy(table + 8 * i, &end, 8);
    }
    return end;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_float_split_cpu() {
  return std::make_shared<FloatSplitCpu>();
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
