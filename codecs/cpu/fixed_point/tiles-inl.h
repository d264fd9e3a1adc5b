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

#include "codecs/codec.h"
#include "codecs/cpu/fixed_point/channels.h"
#include "codecs/cpu/fixed_point/job.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/philox-inl.h"
#include "codecs/cpu/vectors/transpose-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Distance in elements between channels' pieces in a tile: a piece, room for vectors past it, and
/// an odd number of cache lines, so that channels don't all fall into the same cache sets.
HWY_INLINE std::int64_t tile_stride(const cpu::FixedPointJob& job) {
  return job.piece + 3 * 64 / 2;
}

/// The bit pattern of element `i`.
template <class S>
HWY_INLINE const typename S::Bits* element_at(const void* source, std::int64_t i) {
  return static_cast<const typename S::Bits*>(source) + i;
}
template <class S>
HWY_INLINE typename S::Bits* element_at(void* target, std::int64_t i) {
  return static_cast<typename S::Bits*>(target) + i;
}

/// A vector of elements from `i` on, as floats.
template <class S, class DF>
HWY_INLINE hn::Vec<DF> load_floats(DF df, const void* source, std::int64_t i) {
  return S::load(df, static_cast<const typename S::Raw*>(source) + i);
}

/// Gathers the elements of every channel of a task to `tile`, tile_stride() a channel.
template <class S>
HWY_NOINLINE void gather_tile(const cpu::FixedPointJob& job, const cpu::FixedPointTask& task,
                              const void* source, void* tile) {
  const std::int64_t stride = job.walk.inner_stride();
  job.walk.for_each_run(
      task.begin, task.count, [&](std::int64_t at, std::int64_t n, std::int64_t offset) {
        if (job.way == cpu::FixedPointJob::Way::columns) {
          transpose(sizeof(typename S::Bits), element_at<S>(source, task.first_channel + offset),
                    stride, n, task.channels, element_at<S>(tile, at), tile_stride(job), true);
          return;
        }
        for (std::int64_t i = 0; i < task.channels; ++i) {
          const std::int64_t base = (task.first_channel + i) * job.what.layout.inner_stride;
          cpu::gather_run(element_at<S>(source, base + offset), stride, n,
                          element_at<S>(tile, i * tile_stride(job) + at));
        }
      });
}

/// The reverse of gather_tile.
template <class S>
HWY_NOINLINE void scatter_tile(const cpu::FixedPointJob& job, const cpu::FixedPointTask& task,
                               const void* tile, void* target) {
  const std::int64_t stride = job.walk.inner_stride();
  job.walk.for_each_run(
      task.begin, task.count, [&](std::int64_t at, std::int64_t n, std::int64_t offset) {
        if (job.way == cpu::FixedPointJob::Way::columns) {
          transpose(sizeof(typename S::Bits), element_at<S>(tile, at), tile_stride(job),
                    task.channels, n, element_at<S>(target, task.first_channel + offset), stride,
                    false);
          return;
        }
        for (std::int64_t i = 0; i < task.channels; ++i) {
          const std::int64_t base = (task.first_channel + i) * job.what.layout.inner_stride;
          cpu::scatter_run(element_at<S>(tile, i * tile_stride(job) + at), stride, n,
                           element_at<S>(target, base + offset));
        }
      });
}

/// Computes the draws of every element of a tile, in the tile's order, tile_stride() a channel.
class TileDraws {
 public:
  TileDraws(const cpu::FixedPointJob& job, RandomKey key)
      : layout_(job.what.layout),
        plane_(layout_.plane_size()),
        stride_(tile_stride(job)),
        key_(key) {}

  /// Room, in draws, that `fill` needs at `some`, and before and behind a tile's draws.
  static constexpr std::int64_t kRoom = 3 * kFixedPointChunk;
  static constexpr std::int64_t kBefore = philox::kDrawsPerBlock;
  static constexpr std::int64_t kBehind = 1024;  // more than fill_draws overruns

  /// Writes the draws of all of a task's elements.
  void fill(const cpu::FixedPointTask& task, std::uint16_t* HWY_RESTRICT some,
            std::uint16_t* HWY_RESTRICT draws) const {
    if (plane_ == 1 && layout_.inner > 1) {
      fill_rows(task, some, draws);
    } else if (task.channels * plane_ <= kFixedPointChunk) {
      fill_small_planes(task, some, draws);
    } else {
      // Channel by channel: draws written past one channel's are replaced by the next one's.
      for (std::int64_t c = 0; c < task.channels; ++c) {
        for_each_segment(task, [&](std::int64_t at, std::int64_t n, std::int64_t first) {
          make_after(first + c * plane_, n, draws + c * stride_ + at);
        });
      }
    }
  }

  /// Writes the draws of `count` elements of one channel.
  void fill_part(std::int64_t channel, std::int64_t begin, std::int64_t count,
                 std::uint16_t* HWY_RESTRICT draws) const {
    for_each_segment(cpu::FixedPointTask{channel, 1, begin, count},
                     [&](std::int64_t at, std::int64_t n, std::int64_t first) {
                       make_after(first, n, draws + at);
                     });
  }

 private:
  static constexpr std::int64_t kBlock = philox::kDrawsPerBlock;

  static std::int64_t blocks_for(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

  /// Calls `f(at, n, first)` for stretches of elements [at, at + n) of the task's first channel
  /// with logical indices from `first` on: planes, or parts of them.
  template <class F>
  void for_each_segment(const cpu::FixedPointTask& task, const F& f) const {
    for (std::int64_t at = 0; at < task.count;) {
      const std::int64_t m = task.begin + at;
      const std::int64_t rest = task.count - at;
      // A single channel's planes follow each other.
      const std::int64_t n = layout_.inner == 1 ? rest : std::min(plane_ - m % plane_, rest);
      f(at, n, (m / plane_ * layout_.inner + task.first_channel) * plane_ + m % plane_);
      at += n;
    }
  }

  /// Writes the draws of elements [first, first + n) to `to`, and keeps the bytes before `to`.
  void make_after(std::int64_t first, std::int64_t n, std::uint16_t* HWY_RESTRICT to) const {
    const std::int64_t skipped = first % kBlock;
    std::uint16_t before[kBlock];
    std::memcpy(before, to - kBlock, sizeof before);
    fill_draws(key_, static_cast<std::uint64_t>(first / kBlock), blocks_for(skipped + n),
               to - skipped);
    std::memcpy(to - kBlock, before, sizeof before);
  }

  /// For all channels' planes of one outer index at once: they are adjacent in logical order.
  void fill_small_planes(const cpu::FixedPointTask& task, std::uint16_t* HWY_RESTRICT some,
                         std::uint16_t* HWY_RESTRICT draws) const {
    for_each_segment(task, [&](std::int64_t at, std::int64_t n, std::int64_t first) {
      const std::int64_t skipped = first % kBlock;
      const std::int64_t all = (task.channels - 1) * plane_ + n;
      fill_draws(key_, static_cast<std::uint64_t>(first / kBlock), blocks_for(skipped + all), some);
      for (std::int64_t c = 0; c < task.channels; ++c) {
        std::memcpy(draws + c * stride_ + at, some + skipped + c * plane_, n * 2);
      }
    });
  }

  /// For planes of one element: draws in a row are those of channels. Transposes a few rows at a
  /// time.
  void fill_rows(const cpu::FixedPointTask& task, std::uint16_t* HWY_RESTRICT some,
                 std::uint16_t* HWY_RESTRICT draws) const {
    constexpr std::int64_t kRows = 16;
    constexpr std::int64_t kRow = cpu::FixedPointJob::kMaxGroup + kBlock;
    for (std::int64_t r = 0; r < task.count; r += kRows) {
      const std::int64_t rows = std::min(kRows, task.count - r);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t first = (task.begin + r + i) * layout_.inner + task.first_channel;
        const std::int64_t skipped = first % kBlock;
        std::uint16_t* const row = some + i * kRow;
        fill_draws(key_, static_cast<std::uint64_t>(first / kBlock),
                   blocks_for(skipped + task.channels), row);
        if (skipped != 0) std::memmove(row, row + skipped, task.channels * 2);
      }
      transpose(sizeof *some, some, kRow, rows, task.channels, draws + r, stride_, true);
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
