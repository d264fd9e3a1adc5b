// SPDX-License-Identifier: Apache-2.0
#include "codecs/error_bounded.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/error_bounded/error_bounded.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/error_bounded/blocks-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/compaction.h"
#include "codecs/cpu/error_bounded/logical_reader.h"
#include "codecs/cpu/runs.h"
#include "codecs/cpu/workspace.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_blocks);
HWY_EXPORT(decode_blocks);

class ErrorBoundedCpu final : public ErrorBoundedCodec {
 public:
  using ErrorBoundedCodec::ErrorBoundedCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const std::int64_t elements = what.layout.elements();
    const ErrorBoundedSections at(elements);
    const ErrorBound lattices = error_bound_of(what.type, bound());
    const std::int64_t room = kSuperblockElements * std::int64_t(element_size(what.type));
    std::byte* const index = out.data() + at.kIndex;
    std::byte* const rates = out.data() + at.rates;
    std::byte* const payload = out.data() + at.payload;
    std::fill(rates + at.blocks, payload, std::byte{0});

    const std::int64_t grain =
        (cpu::LogicalReader(what, source).task_elements() + kSuperblockElements - 1) /
        kSuperblockElements;
    std::atomic<bool> good = true;
    for_range(parallel, at.superblocks, grain, [&](std::int64_t first, std::int64_t last) {
      cpu::LogicalReader reader(what, source);
      std::byte* next = payload + first * room;
      for (std::int64_t s = first; s < last && good.load(std::memory_order_relaxed); ++s) {
        const std::int64_t begin = s * kSuperblockElements;
        const std::int64_t count = std::min(kSuperblockElements, elements - begin);
        const std::byte* const x = reader.get(begin, count);
        if (x == nullptr) {
          good.store(false);
          break;
        }
        const auto bytes = static_cast<std::uint64_t>(HWY_DYNAMIC_DISPATCH(encode_blocks)(
            lattices, x, count, rates + s * kSuperblockBlocks, next));
        const std::uint64_t entry = bytes | (s == first ? cpu::kTaskBegin : 0);
        std::memcpy(index + 8 * s, &entry, 8);
        next += bytes;
      }
      cpu::workspace().trim();
    });
    if (!good.load()) return {};
    const std::int64_t bytes =
        cpu::close_gaps(payload, index, at.superblocks, [&](std::int64_t s) { return s * room; });
    const ErrorBoundedHeader header = {what.type, bound(), elements, at.payload + bytes};
    header.write(out.data());
    return {true, static_cast<std::size_t>(header.size)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    ErrorBoundedHeader header;
    if (!serves_bounded(reads) || !accepts(what) || !header.read(in, what)) return false;
    const ErrorBoundedSections at(header.elements);
    const ErrorBound lattices = error_bound_of(what.type, header.bound);
    std::atomic<bool> good = true;
    const bool done = cpu::write_runs(
        what, target, parallel, [&](std::int64_t begin, std::int64_t count, void* run) {
          if (!decode_run(at, lattices, reads, in.first(header.size), begin, count,
                          static_cast<std::byte*>(run))) {
            good.store(false, std::memory_order_relaxed);
          }
        });
    return done && good.load();
  }

 private:
  static bool decode_run(const ErrorBoundedSections& at, const ErrorBound& lattices, Reads reads,
                         std::span<const std::byte> in, std::int64_t begin, std::int64_t count,
                         std::byte* run) {
    const auto kernel = HWY_DYNAMIC_DISPATCH(decode_blocks);
    const auto size = static_cast<std::int64_t>(element_size(lattices.type));
    const auto payload_size = static_cast<std::int64_t>(in.size()) - at.payload;
    while (count > 0) {
      const std::int64_t superblock = begin / kSuperblockElements;
      std::uint64_t offset;
      std::memcpy(&offset, in.data() + at.kIndex + 8 * superblock, 8);
      if (offset > static_cast<std::uint64_t>(payload_size)) return false;
      auto from = static_cast<std::int64_t>(offset);
      const std::int64_t block = begin / kBlockElements;
      for (std::int64_t b = superblock * kSuperblockBlocks; b < block; ++b) {
        const auto rate = std::to_integer<unsigned>(in[at.rates + b]);
        if (!is_rate(rate)) return false;
        from += block_bytes(rate, size);
      }
      if (from > payload_size) return false;
      const std::int64_t some = std::min(count, (superblock + 1) * kSuperblockElements - begin);
      if (!kernel(lattices, reads == Reads::sign, in.data() + at.rates + block,
                  in.data() + at.payload + from, payload_size - from, begin % kBlockElements, some,
                  run)) {
        return false;
      }
      begin += some;
      count -= some;
      run += some * size;
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_error_bounded_cpu(float bound) {
  return std::make_shared<ErrorBoundedCpu>(bound);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
