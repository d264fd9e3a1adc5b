// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/division/division.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// A stretch of a plane's elements, in logical order, that one row of blocks covers.
struct Run {
  std::int64_t block_row;  ///< bd * blocks[1] + bh
  std::int64_t first;      ///< logical index of its first element
  std::int64_t column;     ///< of that element; continues over rows that one block covers
  std::int64_t width;      ///< elements of each of its rows
  std::int64_t rows;       ///< more than one only if they are whole

  std::int64_t count() const { return rows * width; }
};

/// The most elements of a run.
inline constexpr std::int64_t kMaxRun = 1024;

/// Calls `f(run)` for runs that cover a plane in logical order.
template <class F>
void for_each_run(const DivisionGeometry& g, const F& f) {
  const std::int64_t height = g.extent[1], width = g.extent[2];
  for (std::int64_t bd = 0; bd < g.blocks[0]; ++bd) {
    for (std::int64_t d = g.cover_begin(0, bd); d < g.cover_begin(0, bd + 1); ++d) {
      for (std::int64_t bh = 0; bh < g.blocks[1]; ++bh) {
        Run run = {bd * g.blocks[1] + bh, (d * height + g.cover_begin(1, bh)) * width, 0, 0, 0};
        const std::int64_t last = (d * height + g.cover_begin(1, bh + 1)) * width;
        const std::int64_t row = g.blocks[2] == 1 ? last - run.first : width;
        while (run.first < last) {
          run.width = std::min(kMaxRun, row - run.column);
          run.rows = run.width == row ? std::min(kMaxRun, last - run.first) / row : 1;
          f(run);
          run.first += run.count();
          run.column += run.width;
          if (run.column == row) run.column = 0;
        }
      }
    }
  }
}

/// The runs of a plane, the same for all planes.
class Runs {
 public:
  /// @return false when memory ran out
  bool prepare(const DivisionGeometry& g, cpu::Buffer& buffer) {
    std::int64_t count = 0;
    for_each_run(g, [&](const Run&) { ++count; });
    auto* const runs = buffer.get<Run>(count);
    if (runs == nullptr) return false;
    count = 0;
    for_each_run(g, [&](const Run& run) { runs[count++] = run; });
    runs_ = {runs, static_cast<std::size_t>(count)};
    return true;
  }

  auto begin() const { return runs_.begin(); }
  auto end() const { return runs_.end(); }

 private:
  std::span<const Run> runs_;
};

/// Nearest upsampling of rows of block values to the columns that the blocks cover.
class Spread {
 public:
  /// @return false when memory ran out
  bool prepare(const DivisionGeometry& geometry, cpu::Buffer& buffer) {
    geometry_ = &geometry;
    if (!by_table(geometry)) return true;
    const std::int64_t width = geometry.extent[2];
    const std::int64_t vectors = (width + lanes() - 1) / lanes();
    auto* const columns = buffer.get<std::int32_t>(vectors * (lanes() + 1));
    if (columns == nullptr) return false;
    std::int64_t w = 0;
    for (std::int64_t b = 0; b < geometry.blocks[2]; ++b) {
      const std::int64_t end = geometry.cover_begin(2, b + 1);
      for (; w < end; ++w) columns[w] = static_cast<std::int32_t>(b);
    }
    std::fill(columns + width, columns + vectors * lanes(), columns[width - 1]);
    auto* const first = columns + vectors * lanes();
    for (std::int64_t v = 0; v < vectors; ++v) {
      first[v] = columns[v * lanes()];
      for (std::int64_t i = 0; i < lanes(); ++i) columns[v * lanes() + i] -= first[v];
    }
    columns_ = columns;
    first_ = first;
    return true;
  }

  /// Distance in floats between spread rows: whole vectors, as many as `operator()` may write. One
  /// vector serves all columns that a single block covers.
  static std::int64_t pitch(const DivisionGeometry& g) {
    if (g.blocks[2] == 1) return lanes();
    const std::int64_t whole = (g.extent[2] + lanes() - 1) / lanes() * lanes();
    return by_table(g) ? whole : whole + lanes();
  }

  /// Spreads blocks[2] values, which have a readable vector behind them.
  HWY_INLINE void operator()(const float* HWY_RESTRICT values, float* HWY_RESTRICT row) const {
    const hn::ScalableTag<float> df;
    const DivisionGeometry& g = *geometry_;
    if (g.blocks[2] == 1) {
      hn::StoreU(hn::Set(df, values[0]), df, row);
      return;
    }
    if (by_table(g)) {
      for (std::int64_t v = 0, w = 0; w < g.extent[2]; ++v, w += lanes()) {
        const auto lane = hn::SetTableIndices(df, columns_ + w);
        hn::StoreU(hn::TableLookupLanes(hn::LoadU(df, values + first_[v]), lane), df, row + w);
      }
      return;
    }
    // Values stored past a block's end are overwritten by the next block's.
    std::int64_t w = 0;
    for (std::int64_t b = 0; b < g.blocks[2]; ++b) {
      const auto value = hn::Set(df, values[b]);
      const std::int64_t end = g.cover_begin(2, b + 1);
      for (; w < end; w += lanes()) hn::StoreU(value, df, row + w);
      w = end;
    }
  }

 private:
  static std::int64_t lanes() {
    return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  }
  /// Whether blocks are narrower than a vector.
  static bool by_table(const DivisionGeometry& g) {
    return g.blocks[2] > 1 && g.block[2] < lanes();
  }

  const DivisionGeometry* geometry_ = nullptr;
  const std::int32_t* columns_ = nullptr;  ///< of each column: its block minus its vector's first
  const std::int32_t* first_ = nullptr;    ///< of each vector of columns: the first column's block
};

/// The means of a row of blocks, spread to the columns that they cover.
class MeanRow {
 public:
  /// @return false when memory ran out
  bool prepare(const DivisionGeometry& geometry, cpu::Workspace& work) {
    blocks_ = geometry.blocks[2];
    row_ = work.row.get<float>(Spread::pitch(geometry) + 2 * lanes());
    means_ = work.means.get<float>(blocks_ + 2 * lanes());
    return row_ != nullptr && means_ != nullptr && spread_.prepare(geometry, work.columns);
  }

  /// Loads the row's means, each with `more` added, from bfloat16s at `from`, of which `readable`
  /// can be read.
  HWY_INLINE void load(const std::byte* from, std::int64_t readable, float more) {
    const hn::ScalableTag<float> df;
    if (blocks_ == 1) {
      std::uint16_t bits;
      std::memcpy(&bits, from, 2);
      hn::StoreU(hn::Set(df, float_of_bf16(bits) + more), df, row_);
      return;
    }
    const auto* const bits = reinterpret_cast<const std::uint16_t*>(from);
    for (std::int64_t b = 0; b < blocks_; b += lanes()) {
      std::uint16_t rest[HWY_MAX_BYTES / sizeof(float)];
      const std::uint16_t* some = bits + b;
      if (b + lanes() > readable) {
        std::memcpy(rest, some, (readable - b) * 2);
        some = rest;
      }
      hn::StoreU(hn::Add(Bfloat16::load(df, some), hn::Set(df, more)), df, means_ + b);
    }
    spread_(means_, row_);
  }

  /// That of a run's first element. The next ones' lie behind it, columns() apart.
  HWY_INLINE const float* of(const Run& run) const { return row_ + run.column * columns(); }
  HWY_INLINE std::int64_t columns() const { return blocks_ == 1 ? 0 : 1; }

 private:
  static std::int64_t lanes() {
    return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  }

  std::int64_t blocks_ = 0;
  Spread spread_;
  float* row_ = nullptr;
  float* means_ = nullptr;
};

}  // namespace division
}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
