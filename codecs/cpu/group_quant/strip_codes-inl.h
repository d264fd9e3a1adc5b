// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_STRIP_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_STRIP_CODES_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_STRIP_CODES_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_STRIP_CODES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/group_quant/features.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/vectors/rotate_indices-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Codes of a strip's features, of up to kRows rows: a stream of bits each, in words that vectors
/// of neighbouring features are read from and written to.
class StripCodes {
 public:
  static constexpr std::int64_t kRows = 256;
  using DU = hn::RebindToUnsigned<ExtremeTag>;
  using VU = hn::Vec<DU>;

  /// Appends the same number of bits to the streams of a vector of features.
  class Writer {
   public:
    /// @param v the vector's first feature
    HWY_INLINE Writer(StripCodes& codes, std::int64_t v)
        : to_(codes.words_ + v), rest_(hn::Zero(DU())) {}

    /// Appends the `bits` lowest bits, above which there are none. 1 <= bits <= 32
    HWY_INLINE void append(VU codes, int bits) {
      rest_ = hn::Or(rest_, hn::ShiftLeftSame(codes, filled_));
      filled_ += bits;
      if (filled_ < 32) return;
      flush();
      filled_ -= 32;
      rest_ = filled_ == 0 ? hn::Zero(DU()) : hn::ShiftRightSame(codes, bits - filled_);
    }

    /// Writes what there is of the last word.
    HWY_INLINE void end() {
      if (filled_ != 0) flush();
    }

   private:
    HWY_INLINE void flush() {
      hn::Store(rest_, DU(), to_);
      to_ += cpu::kStripFeatures;
    }

    std::uint32_t* to_;
    VU rest_;
    int filled_ = 0;
  };

  /// The 32 bits from bit `at` on of a vector of features, at least the first `bits` of them.
  HWY_INLINE VU read(std::int64_t v, std::int64_t at, int bits) const {
    const DU du;
    const std::uint32_t* const from = words_ + at / 32 * cpu::kStripFeatures + v;
    const int skipped = static_cast<int>(at % 32);
    const VU first = hn::ShiftRightSame(hn::Load(du, from), skipped);
    if (skipped + bits <= 32) return first;
    return hn::Or(first, hn::ShiftLeftSame(hn::Load(du, from + cpu::kStripFeatures), 32 - skipped));
  }

  /// Takes `bytes` bytes of each of `count` features, `apart` bytes from one to the next. Reads no
  /// byte at `end` or behind it, and prefetches those of the next strip.
  void load(const std::byte* from, std::int64_t apart, std::int64_t bytes, std::int64_t count,
            const std::byte* end) {
    std::byte copies[cpu::kStripFeatures * kStride];
    for (std::int64_t f = 0; f < count; ++f) {
      hwy::Prefetch(from + (cpu::kStripFeatures + f) * apart);
    }
    const bool is_inside =
        count == cpu::kStripFeatures && from + (count - 1) * apart + padded(bytes) <= end;
    if (!is_inside) {
      for (std::int64_t f = 0; f < count; ++f) {
        std::memcpy(copies + f * kStride, from + f * apart, bytes);
      }
      from = copies;
      apart = kStride;
    }
    const DB db;
    const D4 d4;
    for (std::int64_t f = 0; f < cpu::kStripFeatures; f += 4) {
      for (std::int64_t at = 0; at < bytes; at += 16) {
        hn::Vec<D4> words[4];
        for (std::int64_t i = 0; i < 4; ++i) {
          const auto* const row =
              reinterpret_cast<const std::uint8_t*>(from + (f + i) * apart + at);
          words[i] = hn::BitCast(d4, hn::LoadU(db, row));
        }
        transpose_four(words);
        for (std::int64_t i = 0; i < 4; ++i) {
          hn::Store(words[i], d4, words_ + (at / 4 + i) * cpu::kStripFeatures + f);
        }
      }
    }
  }

  /// Writes `bytes` bytes of each of `count` features, `apart` bytes from one to the next.
  void store(std::byte* to, std::int64_t apart, std::int64_t bytes, std::int64_t count) const {
    const DB db;
    const D4 d4;
    for (std::int64_t f = 0; f < count; f += 4) {
      std::byte streams[4 * kStride];
      for (std::int64_t at = 0; at < bytes; at += 16) {
        hn::Vec<D4> words[4];
        for (std::int64_t i = 0; i < 4; ++i) {
          words[i] = hn::Load(d4, words_ + (at / 4 + i) * cpu::kStripFeatures + f);
        }
        transpose_four(words);
        for (std::int64_t i = 0; i < 4; ++i) {
          hn::StoreU(hn::BitCast(db, words[i]), db,
                     reinterpret_cast<std::uint8_t*>(streams + i * kStride + at));
        }
      }
      for (std::int64_t i = 0; i < 4 && f + i < count; ++i) {
        std::memcpy(to + (f + i) * apart, streams + i * kStride, bytes);
      }
    }
  }

 private:
  using D4 = hn::Full128<std::uint32_t>;
  using DB = hn::Full128<std::uint8_t>;
  static constexpr std::int64_t kStride = kRows;  ///< bytes of a stream, at most

  static constexpr std::int64_t padded(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

  /// Transposes four rows of four in place.
  static HWY_INLINE void transpose_four(hn::Vec<D4> (&rows)[4]) {
    hn::Vec<D4> halfway[4];
    rotate_indices(D4(), rows, halfway);
    rotate_indices(D4(), halfway, rows);
  }

  /// Word w of feature f's stream at w * kStripFeatures + f.
  HWY_ALIGN std::uint32_t words_[kRows / 4 * cpu::kStripFeatures] = {};
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
