// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_FIXED_POINT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_FIXED_POINT_TILES_INL_H_
#undef CINCH_CODECS_CPU_FIXED_POINT_TILES_INL_H_
#else
#define CINCH_CODECS_CPU_FIXED_POINT_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/codec.h"
#include "codecs/cpu/channels.h"
#include "codecs/cpu/fixed_point_job.h"
#include "codecs/cpu/float_formats-inl.h"
#include "codecs/cpu/philox-inl.h"
#include "codecs/cpu/transpose-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements from one channel's piece to the next one's in a tile: a piece, room for vectors beyond
/// it, and an odd number of cache lines, lest all channels fall into the same sets of a cache.
HWY_INLINE std::int64_t tile_stride(const cpu::FixedPointJob& job) {
  return job.piece + 3 * 64 / 2;
}

/// Calls f with std::integral_constant<ElementType, type>. @pre is_quantizable(type)
template <class F>
HWY_INLINE auto with_float_type(ElementType type, const F& f) {
  switch (type) {
    case ElementType::float32:
      return f(std::integral_constant<ElementType, ElementType::float32>());
    case ElementType::bfloat16:
      return f(std::integral_constant<ElementType, ElementType::bfloat16>());
    default:
      return f(std::integral_constant<ElementType, ElementType::float16>());
  }
}

/// Bit patterns of `type`.
template <ElementType type>
using BitsOf = std::conditional_t<type == ElementType::float32, std::uint32_t, std::uint16_t>;

template <ElementType type>
HWY_INLINE const BitsOf<type>* element_at(const void* source, std::int64_t i) {
  return static_cast<const BitsOf<type>*>(source) + i;
}
template <ElementType type>
HWY_INLINE BitsOf<type>* element_at(void* target, std::int64_t i) {
  return static_cast<BitsOf<type>*>(target) + i;
}

/// A vector of elements from `i` on, as floats.
template <ElementType type, class DF>
HWY_INLINE hn::Vec<DF> load_floats(DF df, const void* source, std::int64_t i) {
  const hn::RebindToUnsigned<DF> du;
  if constexpr (type == ElementType::float32) {
    return hn::LoadU(df, static_cast<const float*>(source) + i);
  } else {
    const hn::Rebind<std::uint16_t, DF> d16;
    const auto bits = hn::PromoteTo(du, hn::LoadU(d16, element_at<type>(source, i)));
    if constexpr (type == ElementType::bfloat16) {
      return lanes_of_bf16(df, bits);
    } else {
      return lanes_of_f16(df, bits);
    }
  }
}

template <ElementType type>
HWY_INLINE float float_at(const void* source, std::int64_t i) {
  if constexpr (type == ElementType::float32) return float_of_bits(*element_at<type>(source, i));
  const auto half = static_cast<std::uint16_t>(*element_at<type>(source, i));
  return type == ElementType::bfloat16 ? float_of_bf16(half) : float_of_f16(half);
}

/// Elements [begin, begin + count) of a channel, side by side at `to`.
template <ElementType type>
HWY_INLINE void gather_channel(const cpu::FixedPointJob& job, std::int64_t channel,
                               std::int64_t begin, std::int64_t count, const void* source,
                               void* to) {
  const std::int64_t base = channel * job.what.layout.inner_stride;
  job.walk.for_each_run(begin, count, [&](std::int64_t at, std::int64_t n, std::int64_t offset) {
    cpu::gather_run(element_at<type>(source, base + offset), job.walk.inner_stride(), n,
                    element_at<type>(to, at));
  });
}

/// The elements of every channel of a task at `tile`, tile_stride() apart.
template <ElementType type>
HWY_INLINE void gather_tile(const cpu::FixedPointJob& job, const cpu::FixedPointJob::Task& task,
                            const void* source, void* tile) {
  if (!job.interleaved) {
    for (std::int64_t i = 0; i < task.channels; ++i) {
      gather_channel<type>(job, task.first_channel + i, task.begin, task.count, source,
                           element_at<type>(tile, i * tile_stride(job)));
    }
    return;
  }
  job.walk.for_each_run(task.begin, task.count,
                        [&](std::int64_t at, std::int64_t n, std::int64_t offset) {
                          transpose<true>(element_at<type>(source, task.first_channel + offset),
                                          job.walk.inner_stride(), n, task.channels,
                                          element_at<type>(tile, at), tile_stride(job));
                        });
}

/// The way back.
template <ElementType type>
HWY_INLINE void scatter_tile(const cpu::FixedPointJob& job, const cpu::FixedPointJob::Task& task,
                             const void* tile, void* target) {
  const std::int64_t stride = job.walk.inner_stride();
  if (job.interleaved) {
    job.walk.for_each_run(
        task.begin, task.count, [&](std::int64_t at, std::int64_t n, std::int64_t offset) {
          transpose<false>(element_at<type>(tile, at), tile_stride(job), task.channels, n,
                           element_at<type>(target, task.first_channel + offset), stride);
        });
    return;
  }
  for (std::int64_t i = 0; i < task.channels; ++i) {
    const std::int64_t base = (task.first_channel + i) * job.what.layout.inner_stride;
    job.walk.for_each_run(task.begin, task.count,
                          [&](std::int64_t at, std::int64_t n, std::int64_t offset) {
                            cpu::scatter_run(element_at<type>(tile, i * tile_stride(job) + at),
                                             stride, n, element_at<type>(target, base + offset));
                          });
  }
}

/// The draws of every element of a tile, in its order.
class TileDraws {
 public:
  TileDraws(const cpu::FixedPointJob& job, RandomKey key)
      : layout_(job.what.layout),
        plane_(layout_.plane_size()),
        stride_(tile_stride(job)),
        key_(key) {}

  /// Draws that `fill` needs at `some`, and how many before either of its buffers.
  static constexpr std::int64_t kRoom = 4 * kFixedPointChunk;
  static constexpr std::int64_t kBefore = philox::kDrawsPerBlock;

  /// Fills `draws`, tile_stride() a channel, and up to a vector of blocks beyond each channel's.
  HWY_INLINE void fill(const cpu::FixedPointJob::Task& task, std::uint16_t* HWY_RESTRICT some,
                       std::uint16_t* HWY_RESTRICT draws) const {
    if (plane_ == 1 && layout_.inner > 1) {
      fill_rows(task, some, draws);
      return;
    }
    for (std::int64_t m = task.begin; m < task.begin + task.count;) {
      const std::int64_t in_plane = m % plane_;
      const std::int64_t at = m - task.begin;
      // A single channel's planes follow each other in logical order.
      const std::int64_t rest = task.begin + task.count - m;
      const std::int64_t n = layout_.inner == 1 ? rest : std::min(plane_ - in_plane, rest);
      const std::int64_t first =
          (m / plane_ * layout_.inner + task.first_channel) * plane_ + in_plane;
      if (n == plane_ && task.channels > 1 && task.channels * plane_ <= kRoom / 2) {
        const std::int64_t skipped = first % philox::kDrawsPerBlock;
        make(first - skipped, task.channels * plane_ + skipped, some);
        for (std::int64_t c = 0; c < task.channels; ++c) {
          std::memcpy(draws + c * stride_ + at, some + skipped + c * plane_, plane_ * 2);
        }
      } else {
        for (std::int64_t c = 0; c < task.channels; ++c) {
          make(first + c * plane_, n, draws + c * stride_ + at);
        }
      }
      m += n;
    }
  }

 private:
  /// Draws of elements [first, first + n) at `to`, and up to a vector of blocks beyond. A block is
  /// writable before `to`.
  HWY_INLINE void make(std::int64_t first, std::int64_t n, std::uint16_t* HWY_RESTRICT to) const {
    constexpr std::int64_t kBlock = philox::kDrawsPerBlock;
    const std::int64_t skipped = first % kBlock;
    std::uint16_t before[kBlock];
    std::memcpy(before, to - kBlock, sizeof before);
    fill_draws(key_, static_cast<std::uint64_t>(first / kBlock),
               (skipped + n + kBlock - 1) / kBlock, to - skipped);
    std::memcpy(to - kBlock, before, sizeof before);
  }

  /// Planes of one element: what is drawn in a row are channels, a few rows at a time.
  HWY_INLINE void fill_rows(const cpu::FixedPointJob::Task& task, std::uint16_t* HWY_RESTRICT some,
                            std::uint16_t* HWY_RESTRICT draws) const {
    constexpr std::int64_t kRows = 16;
    constexpr std::int64_t kGroup = cpu::FixedPointJob::kMaxGroup;
    constexpr std::int64_t kBlocks = kGroup / philox::kDrawsPerBlock + 1;
    std::uint64_t index[kRows * kBlocks + HWY_MAX_BYTES / 8];
    for (std::int64_t r = 0; r < task.count; r += kRows) {
      const std::int64_t rows = std::min(kRows, task.count - r);
      const std::int64_t first = (task.begin + r) * layout_.inner + task.first_channel;
      if (layout_.inner % philox::kDrawsPerBlock == 0) {
        // All rows begin with a block, because groups do.
        const std::int64_t blocks =
            (task.channels + philox::kDrawsPerBlock - 1) / philox::kDrawsPerBlock;
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t block = (first + i * layout_.inner) / philox::kDrawsPerBlock;
          for (std::int64_t b = 0; b < blocks; ++b) index[i * blocks + b] = block + b;
        }
        fill_draws_at(key_, index, rows * blocks, some);
        transpose<true>(some, blocks * philox::kDrawsPerBlock, rows, task.channels, draws + r,
                        stride_);
        continue;
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t block = (first + i * layout_.inner) / philox::kDrawsPerBlock;
        for (std::int64_t b = 0; b < kBlocks; ++b) index[i * kBlocks + b] = block + b;
      }
      fill_draws_at(key_, index, rows * kBlocks, some);
      for (std::int64_t i = 0; i < rows; ++i) {
        // Moved to where the row begins, in place: to the left.
        const std::int64_t skipped = (first + i * layout_.inner) % philox::kDrawsPerBlock;
        std::memmove(some + i * kGroup, some + i * kBlocks * philox::kDrawsPerBlock + skipped,
                     kGroup * 2);
      }
      transpose<true>(some, kGroup, rows, task.channels, draws + r, stride_);
    }
  }

  const PlaneLayout& layout_;
  std::int64_t plane_;
  std::int64_t stride_;
  RandomKey key_;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
