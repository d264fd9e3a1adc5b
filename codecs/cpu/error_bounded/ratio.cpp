// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/error_bounded/error_bounded_ratio.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/error_bounded/ratio.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/error_bounded/ratio_decode-inl.h"
#include "codecs/cpu/error_bounded/ratio_encode-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <span>

#include "codecs/cpu/compaction.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(quantize_chunk);
HWY_EXPORT(encode_chunk);
HWY_EXPORT(decode_chunk);

class ErrorBoundedRatioCpu final : public ErrorBoundedRatioCodec {
 public:
  using ErrorBoundedRatioCodec::ErrorBoundedRatioCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override try {
    const RatioChunks chunks(what.layout);
    const ErrorBound lattices = error_bound_of(what.type, bound());
    const auto size = static_cast<std::int64_t>(element_size(what.type));
    const auto plan = plan_for(what, source);
    const cpu::EncodeTables tables(*plan);
    RatioHeader header = {what.type, *plan, bound(), what.layout.elements(), 0, 0};
    header.write(out.data());
    std::byte* const index = out.data() + header.index;
    std::byte* const payload = index + 8 * chunks.count();

    const std::int64_t grain = task_elements(what.layout, size) / kChunkElements;
    std::atomic<bool> good = true;
    for_range(parallel, chunks.count(), grain, [&](std::int64_t first, std::int64_t last) {
      cpu::Workspace& work = cpu::workspace();
      const RatioChunks::Chunk end = chunks[last - 1];
      cpu::StretchReader reader(what.layout, size, source, end.begin + end.count, work.tile);
      const cpu::RatioScratch scratch(work);
      std::byte* next = payload + chunks[first].begin * size;
      for (std::int64_t c = first; c < last && good.load(std::memory_order_relaxed); ++c) {
        const RatioChunks::Chunk chunk = chunks[c];
        const std::byte* const x = reader.read(chunk.begin, chunk.count);
        if (x == nullptr || !scratch.good()) {
          good.store(false);
          break;
        }
        const auto bytes = static_cast<std::uint64_t>(
            HWY_DYNAMIC_DISPATCH(encode_chunk)(lattices, *plan, tables, chunk, x, scratch, next));
        const std::uint64_t entry = bytes | (c == first ? cpu::kTaskBegin : 0);
        std::memcpy(index + 8 * c, &entry, 8);
        next += bytes;
      }
      work.trim();
    });
    if (!good.load()) return {};
    const std::int64_t bytes = cpu::close_gaps(
        payload, index, chunks.count(), [&](std::int64_t c) { return chunks[c].begin * size; });
    header.write_size(out.data(), payload - out.data() + bytes);
    report(plan, header.elements, header.size);
    return {true, static_cast<std::size_t>(header.size)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!serves_bounded(reads) || !accepts(what)) return false;
    const RatioChunks chunks(what.layout);
    RatioHeader header;
    if (!header.read(in, what, chunks.count())) return false;
    const DecodeJob job = {what,
                           chunks,
                           in,
                           header,
                           error_bound_of(what.type, header.bound),
                           cpu::DecodeTables(header.plan),
                           reads == Reads::sign};
    std::atomic<bool> good = true;
    if (what.layout.is_contiguous()) {
      for_range(parallel, chunks.count(), kTaskChunks, [&](std::int64_t first, std::int64_t last) {
        if (!decode_chunks(job, first, last, 0, static_cast<std::byte*>(target))) {
          good.store(false);
        }
        cpu::workspace().trim();
      });
      return good.load();
    }
    const std::int64_t tile = tile_planes(what, chunks);
    for_range(parallel, what.layout.planes(), tile, [&](std::int64_t first, std::int64_t last) {
      if (!decode_planes(job, first, last, tile, target)) good.store(false);
      cpu::workspace().trim();
    });
    return good.load();
  }

 protected:
  RatioCodes sample(const Description& what, const void* source,
                    const RatioChunks::Chunk& chunk) const override {
    std::vector<std::byte> x(static_cast<std::size_t>(chunk.count) * element_size(what.type));
    cpu::gather_elements(what.layout, element_size(what.type), source, chunk.begin, chunk.count,
                         x.data());
    RatioCodes result;
    result.codes.resize(static_cast<std::size_t>(chunk.count));
    result.escapes.resize(static_cast<std::size_t>(chunk.count));
    const std::int64_t escapes = HWY_DYNAMIC_DISPATCH(quantize_chunk)(
        error_bound_of(what.type, bound()), false, x.data(), chunk.count, result.codes.data(),
        result.escapes.data());
    result.escapes.resize(static_cast<std::size_t>(escapes));
    return result;
  }

 private:
  static constexpr std::int64_t kTaskChunks = 4;

  // Fewest elements of an encoding task: enough that tasks gather little that others gather too.
  static std::int64_t task_elements(const PlaneLayout& layout, std::int64_t element_size) {
    constexpr std::int64_t kLeast = 1 << 15;
    if (layout.is_contiguous()) return kLeast;
    return std::max(kLeast, cpu::planes_per_tile(layout, element_size) * layout.plane_size());
  }

  struct DecodeJob {
    const Description& what;
    const RatioChunks& chunks;
    std::span<const std::byte> in;
    const RatioHeader& header;
    ErrorBound lattices;
    cpu::DecodeTables tables;
    bool only_signs;
  };

  /// Decodes chunks [first, last). `target` is the place of the element at logical index `origin`.
  static bool decode_chunks(const DecodeJob& job, std::int64_t first, std::int64_t last,
                            std::int64_t origin, std::byte* target) {
    const cpu::RatioScratch scratch(cpu::workspace());
    if (!scratch.good()) return false;
    const auto size = static_cast<std::int64_t>(element_size(job.what.type));
    for (std::int64_t c = first; c < last; ++c) {
      const RatioChunks::Chunk chunk = job.chunks[c];
      std::span<const std::byte> found;
      if (!find_chunk(job.in, job.header, job.chunks.count(), c, found)) return false;
      if (!HWY_DYNAMIC_DISPATCH(decode_chunk)(job.lattices, job.header.plan, job.tables,
                                              job.only_signs, chunk, found, scratch,
                                              target + (chunk.begin - origin) * size)) {
        return false;
      }
    }
    return true;
  }

  /// Number of planes that are decoded and then scattered together: a multiple of a chunk's planes.
  static std::int64_t tile_planes(const Description& what, const RatioChunks& chunks) {
    const std::int64_t tile = cpu::planes_per_tile(what.layout, element_size(what.type));
    const std::int64_t unit = std::max<std::int64_t>(1, chunks.planes());
    return (tile + unit - 1) / unit * unit;
  }

  /// Decodes planes [first, last), `tile` at a time. @pre first is a multiple of tile
  static bool decode_planes(const DecodeJob& job, std::int64_t first, std::int64_t last,
                            std::int64_t tile, void* target) {
    const PlaneLayout& layout = job.what.layout;
    const std::size_t size = element_size(job.what.type);
    auto* const elements =
        cpu::workspace().tile.get<std::byte>(tile * layout.plane_size() * std::int64_t(size));
    if (elements == nullptr) return false;
    for (std::int64_t p = first; p < last; p += tile) {
      const std::int64_t planes = std::min(tile, last - p);
      if (!decode_chunks(job, job.chunks.of_plane(p), job.chunks.of_plane(p + planes),
                         p * layout.plane_size(), elements)) {
        return false;
      }
      cpu::scatter_planes(layout, size, elements, p, planes, target);
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_error_bounded_ratio_cpu(float bound, int refresh) {
  return std::make_shared<ErrorBoundedRatioCpu>(bound, refresh);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
