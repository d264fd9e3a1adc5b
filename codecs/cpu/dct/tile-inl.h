// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DCT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DCT_TILE_INL_H_
#undef CINCH_CODECS_CPU_DCT_TILE_INL_H_
#else
#define CINCH_CODECS_CPU_DCT_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/dct/job.h"
#include "codecs/cpu/inline_lambda.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/formats/dct.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kDctColumns = cpu::DctJob::kColumns;

/// Some blocks side by side, row by row, and facts about their coefficients.
struct DctTile {
  HWY_ALIGN float x[kDctEdge * kDctColumns];
  HWY_ALIGN float coefficients[kDctEdge * kDctColumns];
  HWY_ALIGN std::uint16_t codes[kDctEdge * kDctColumns];  ///< z
  /// For each block, without DC: one bit a coefficient, z != 0, one byte a row; the OR of all z;
  /// and the OR of all z - 1.
  std::uint8_t masks[kDctChunk * kDctEdge];
  std::uint16_t all_dense[kDctChunk];
  std::uint16_t all_sparse[kDctChunk];
};

/// Loads 8 * eights elements as floats.
HWY_INLINE void load_eights(ElementType type, const void* HWY_RESTRICT source, std::int64_t eights,
                            float* HWY_RESTRICT to) {
  with_element(type, [&](auto kind) CINCH_INLINE_LAMBDA {
    using S = decltype(kind);
    const hn::CappedTag<float, kDctEdge> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto* const from = static_cast<const typename S::Raw*>(source);
    for (std::int64_t k = 0; k < kDctEdge * eights; k += lanes) {
      hn::StoreU(S::load(d, from + k), d, to + k);
    }
  });
}

/// Stores 8 * eights floats as elements.
HWY_INLINE void store_eights(ElementType type, const float* HWY_RESTRICT x, std::int64_t eights,
                             void* HWY_RESTRICT target) {
  with_element(type, [&](auto kind) CINCH_INLINE_LAMBDA {
    using S = decltype(kind);
    const hn::CappedTag<float, kDctEdge> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto* const to = static_cast<typename S::Raw*>(target);
    for (std::int64_t k = 0; k < kDctEdge * eights; k += lanes) {
      S::store(d, hn::LoadU(d, x + k), to + k);
    }
  });
}

/// Copies `count` elements of `size` bytes, `from_stride` and `to_stride` elements apart.
inline void copy_apart(std::int64_t size, const std::byte* from, std::int64_t from_stride,
                       std::int64_t count, std::byte* to, std::int64_t to_stride) {
  if (size == 4) {
    for (std::int64_t j = 0; j < count; ++j) {
      std::memcpy(to + 4 * j * to_stride, from + 4 * j * from_stride, 4);
    }
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    std::memcpy(to + 2 * j * to_stride, from + 2 * j * from_stride, 2);
  }
}

/// Gathers a chunk's blocks to columns [0, 8 * count) of x. @param readable elements at `source`
inline HWY_NOINLINE void gather_blocks(const DctGeometry& geometry, ElementType type,
                                       const void* source, std::int64_t readable,
                                       const DctGeometry::Block* blocks, std::int64_t count,
                                       float* HWY_RESTRICT x) {
  const auto size = static_cast<std::int64_t>(element_size(type));
  const auto at = [&](std::int64_t offset) {
    return static_cast<const std::byte*>(source) + offset * size;
  };
  for (std::int64_t b = 0; b < count;) {
    const DctGeometry::Block& block = blocks[b];
    float* const to = x + b * kDctEdge;
    const bool whole = geometry.column_stride() == 1 &&
                       block.columns == (geometry.is_rows() ? kDctBlock : kDctEdge);
    // Whole blocks that follow each other along the width go together.
    std::int64_t run = 1;
    if (whole && !geometry.is_rows()) {
      while (b + run < count && blocks[b + run].offset == block.offset + run * kDctEdge &&
             blocks[b + run].columns == kDctEdge) {
        ++run;
      }
    }
    for (std::int64_t i = 0; i < kDctEdge; ++i) {
      const std::int64_t row = block.offset + geometry.offset_in(block, i, 0);
      float* const to_row = to + i * kDctColumns;
      if (whole) {
        load_eights(type, at(row), run, to_row);
        continue;
      }
      std::int64_t columns = block.columns;
      if (geometry.is_rows()) {
        columns = std::clamp<std::int64_t>(columns - i * kDctEdge, 1, kDctEdge);
      }
      if (geometry.column_stride() == 1 && row + kDctEdge <= readable) {
        load_eights(type, at(row), 1, to_row);
      } else {
        HWY_ALIGN std::byte some[kDctEdge * sizeof(float)] = {};
        copy_apart(size, at(row), geometry.column_stride(), columns, some, 1);
        load_eights(type, some, 1, to_row);
      }
      for (std::int64_t j = columns; j < kDctEdge; ++j) to_row[j] = to_row[columns - 1];
    }
    b += run;
  }
}

/// Copies the elements of a chunk's blocks, except raw ones, from x to their places.
inline HWY_NOINLINE void scatter_blocks(const DctGeometry& geometry, ElementType type,
                                        const DctGeometry::Block* blocks, const std::uint8_t* forms,
                                        std::int64_t count, const float* HWY_RESTRICT x,
                                        void* target) {
  const auto size = static_cast<std::int64_t>(element_size(type));
  const auto at = [&](std::int64_t offset) {
    return static_cast<std::byte*>(target) + offset * size;
  };
  for (std::int64_t b = 0; b < count;) {
    const DctGeometry::Block& block = blocks[b];
    std::int64_t run = 1;
    if (forms[b] == kDctRawForm) {
      b += run;
      continue;
    }
    const bool is_rows = geometry.is_rows();
    const bool whole =
        geometry.column_stride() == 1 && block.columns == (is_rows ? kDctBlock : kDctEdge);
    // Whole blocks that follow each other along the width go together.
    if (whole && !is_rows) {
      while (b + run < count && blocks[b + run].offset == block.offset + run * kDctEdge &&
             blocks[b + run].columns == kDctEdge && forms[b + run] != kDctRawForm) {
        ++run;
      }
    }
    const std::int64_t rows = is_rows ? (block.columns + kDctEdge - 1) / kDctEdge : block.rows;
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* const from = x + i * kDctColumns + b * kDctEdge;
      const std::int64_t offset = block.offset + geometry.offset_in(block, i, 0);
      const std::int64_t columns =
          is_rows ? std::min(kDctEdge, block.columns - i * kDctEdge) : block.columns;
      if (whole) {
        store_eights(type, from, run, at(offset));
        continue;
      }
      HWY_ALIGN std::byte some[kDctEdge * sizeof(float)];
      store_eights(type, from, 1, some);
      copy_apart(size, some, 1, columns, at(offset), geometry.column_stride());
    }
    b += run;
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
