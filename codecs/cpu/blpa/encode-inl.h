// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_BLPA_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_BLPA_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_BLPA_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_BLPA_ENCODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/blpa/job.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/magnitude-inl.h"
#include "codecs/cpu/vectors/narrow-inl.h"
#include "codecs/cpu/vectors/prefetch-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/blpa.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// blpa_code for codes of up to `top`, in the low byte of each lane. kGuarded: handles products
/// that underflow.
template <bool kGuarded, class DF, class VF = hn::Vec<DF>>
HWY_INLINE auto blpa_codes(DF df, VF x, VF inverse, VF offset, float top) {
  const hn::RebindToUnsigned<DF> du;
  auto u = hn::Mul(x, inverse);
  if constexpr (kGuarded) {
    const auto zero = hn::Zero(df);
    const auto lost = hn::And(hn::Gt(x, zero), hn::Eq(u, zero));
    u = hn::IfThenElse(lost, hn::Set(df, 0x1p-126F), u);
  }
  u = hn::Max(u, hn::Neg(offset));
  u = hn::Min(u, hn::Sub(hn::Set(df, top), offset));
  // Adding 2^23 leaves the integer in the low bits.
  return hn::BitCast(du, hn::Add(hn::Ceil(u), hn::Add(offset, hn::Set(df, 0x1p23F))));
}

/// Computes the codes of elements, a vector of bytes at a time.
class BlpaCoder {
  using DF = hn::ScalableTag<float>;
  using DU = hn::RebindToUnsigned<DF>;
  using D16 = hn::Repartition<std::uint16_t, DF>;
  using D8 = hn::Repartition<std::uint8_t, DF>;

 public:
  HWY_INLINE explicit BlpaCoder(int bits) : bits_(bits) {}

  /// Writes codes of `count` elements of a channel, and up to a vector more; reads `readable` at
  /// most.
  template <class S>
  HWY_INLINE void run(S kind, const typename S::Raw* HWY_RESTRICT x, std::int64_t count,
                      std::int64_t readable, BlpaScale scale,
                      std::uint8_t* HWY_RESTRICT codes) const {
    // Multiplying by 1 or more can't underflow.
    if (scale.inverse >= 1.0F) {
      run_blocks(kind, x, count, readable, codes, Channel<false>{scale, top()});
    } else {
      run_blocks(kind, x, count, readable, codes, Channel<true>{scale, top()});
    }
  }

  /// The same, with a scale for each element.
  HWY_INLINE void run_each(const float* HWY_RESTRICT x, std::int64_t count,
                           const float* HWY_RESTRICT inverses, const float* HWY_RESTRICT offsets,
                           std::uint8_t* HWY_RESTRICT codes) const {
    const DF df;
    const hn::Rebind<std::uint8_t, DF> d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto code = blpa_codes<true>(df, hn::LoadU(df, x + i), hn::LoadU(df, inverses + i),
                                         hn::LoadU(df, offsets + i), top());
      hn::StoreU(hn::TruncateTo(d8, code), d8, codes + i);
    }
    for (; i < count; ++i) {
      codes[i] = static_cast<std::uint8_t>(blpa_code(x[i], {inverses[i], offsets[i]}, bits_));
    }
  }

 private:
  template <bool kGuarded>
  struct Channel {
    BlpaScale scale;
    float top;

    template <class VF>
    HWY_INLINE auto code(VF x) const {
      const DF df;
      return blpa_codes<kGuarded>(df, x, hn::Set(df, scale.inverse), hn::Set(df, scale.offset),
                                  top);
    }

    /// Puts the codes of `even` into even 16-bit lanes and those of `odd` into odd ones.
    template <class VF>
    HWY_INLINE auto merged(VF even, VF odd) const {
      const D16 d16;
      return hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(code(odd))),
                         hn::BitCast(d16, code(even)));
    }

    HWY_INLINE auto block(Float32, const float* HWY_RESTRICT x) const {
      const DF df;
      const auto lanes = hn::Lanes(df);
      return bytes_of_quarters(D16(), merged(hn::LoadU(df, x), hn::LoadU(df, x + lanes)),
                               merged(hn::LoadU(df, x + 2 * lanes), hn::LoadU(df, x + 3 * lanes)));
    }

    template <class Half>
    HWY_INLINE auto block(Half, const std::uint16_t* HWY_RESTRICT x) const {
      const DF df;
      const D16 d16;
      const auto merged_pairs = [&](const std::uint16_t* from) HWY_ATTR {
        const auto pairs = hn::BitCast(DU(), hn::LoadU(d16, from));
        return merged(Half::low(df, pairs), Half::high(df, pairs));
      };
      return bytes_of_halves(d16, merged_pairs(x), merged_pairs(x + hn::Lanes(d16)));
    }
  };

  template <class S, class C>
  HWY_INLINE void run_blocks(S kind, const typename S::Raw* HWY_RESTRICT x, std::int64_t count,
                             std::int64_t readable, std::uint8_t* HWY_RESTRICT codes,
                             const C& channel) const {
    const D8 d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d8));
    std::int64_t i = 0;
    for (; i < count && i + lanes <= readable; i += lanes) {
      hn::StoreU(channel.block(kind, x + i), d8, codes + i);
    }
    if (i >= count) return;
    HWY_ALIGN typename S::Raw rest[HWY_MAX_BYTES] = {};
    std::memcpy(rest, x + i, (count - i) * sizeof(*x));
    hn::StoreU(channel.block(kind, rest), d8, codes + i);
  }

  float top() const { return static_cast<float>((1 << bits_) - 1); }

  int bits_;
};

/// Writes 1 for each of `count` elements above 0, else 0; stores up to a vector beyond.
inline HWY_NOINLINE void positives(const float* HWY_RESTRICT x, std::int64_t count,
                                   std::uint8_t* HWY_RESTRICT signs) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto positive = hn::RebindMask(du, hn::Gt(hn::LoadU(df, x + i), hn::Zero(df)));
    hn::StoreU(hn::TruncateTo(d8, hn::IfThenElseZero(positive, hn::Set(du, 1))), d8, signs + i);
  }
  for (; i < count; ++i) signs[i] = x[i] > 0.0F ? 1 : 0;
}

/// Encodes elements of kind S, stretch by stretch.
template <class S>
class BlpaEncoder {
  using Raw = typename S::Raw;

 public:
  BlpaEncoder(const cpu::BlpaJob& job, const void* source, std::int64_t end)
      : job_(job),
        work_(cpu::workspace()),
        reader_(job.what.layout, sizeof(Raw), source, end, work_.tile),
        coder_(job.parameters.bits) {}

  /// @return false when memory ran out
  bool prepare() {
    const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
    codes_ = work_.codes.get<std::uint8_t>(cpu::kBlpaStretch + 2 * slack);
    signs_ = work_.signs.get<std::uint8_t>(cpu::kBlpaStretch + 2 * slack);
    floats_ = work_.plane.get<float>(cpu::kBlpaStretch);
    return codes_ != nullptr && signs_ != nullptr && floats_ != nullptr;
  }

  /// Encodes elements [begin, end), at most a stretch. @pre begin is a multiple of 8, and end is
  /// one or the last
  /// @return false when memory ran out
  bool encode(std::int64_t begin, std::int64_t end, std::byte* out) {
    const PlaneLayout& layout = job_.what.layout;
    // Planes that are dense but lie apart are read one at a time.
    const bool together = !has_dense_planes(layout) || layout.is_contiguous();
    for (std::int64_t k = begin; k < end;) {
      const std::int64_t some = (together ? end : plane_end(k, end)) - k;
      const auto* const x = reinterpret_cast<const Raw*>(reader_.read(k, some));
      if (x == nullptr) return false;
      encode_together(x, k, some, codes_ + (k - begin), signs_ + (k - begin));
      k += some;
    }
    pack(job_.parameters.bits, codes_, begin, end, out + job_.sections.codes);
    if (job_.has_signs) pack(1, signs_, begin, end, out + job_.sections.signs);
    return true;
  }

  /// Whether an element was negative, which with_sign does not allow.
  bool negative() const { return negative_; }

 private:
  std::int64_t plane_end(std::int64_t k, std::int64_t end) const {
    const std::int64_t size = job_.what.layout.plane_size();
    return std::min(end, (k / size + 1) * size);
  }

  const float* floats(const Raw* x, std::int64_t count) const {
    if constexpr (std::is_same_v<S, Float32>) {
      return x;
    } else {
      to_floats<S>(x, count, floats_);
      return floats_;
    }
  }

  /// Encodes elements [k, k + count), which are contiguous at x.
  void encode_together(const Raw* x, std::int64_t k, std::int64_t count, std::uint8_t* codes,
                       std::uint8_t* signs) {
    prefetch(x + 2 * cpu::kBlpaStretch, count);
    if (job_.refuses && !all_finite(S(), x, count)) refuse_some(x, k, count);
    if (job_.parameters.with_sign) {
      negative_ |= any_negative(S(), x, count);
      if (job_.has_signs) positives(floats(x, count), count, signs);
    }
    if (job_.channels.period() != 0) {
      encode_each(x, k, count, codes);
    } else {
      encode_pieces(x, k, count, codes);
    }
  }

  void encode_pieces(const Raw* x, std::int64_t k, std::int64_t count, std::uint8_t* codes) const {
    const PlaneLayout& layout = job_.what.layout;
    const int bits = job_.parameters.bits;
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t some = plane_end(k + i, k + count) - (k + i);
      const BlpaGrid grid = job_.channels.grids()[(k + i) / layout.plane_size() % layout.inner];
      if (grid == poisoned_grid()) {
        std::fill_n(codes + i, some, 0);
      } else {
        coder_.run(S(), x + i, some, count - i, blpa_scale(grid, bits), codes + i);
      }
      i += some;
    }
  }

  /// Encodes elements of small planes.
  void encode_each(const Raw* x, std::int64_t k, std::int64_t count, std::uint8_t* codes) const {
    const std::int64_t period = job_.channels.period();
    const float* const values = floats(x, count);
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t from = (k + i) % period;
      const std::int64_t some = std::min(count - i, period - from);
      coder_.run_each(values + i, some, job_.channels.first_table() + from,
                      job_.channels.second_table() + from, codes + i);
      i += some;
    }
  }

  /// Refuses the channels of elements that can't be held.
  void refuse_some(const Raw* x, std::int64_t k, std::int64_t count) const {
    const PlaneLayout& layout = job_.what.layout;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!all_finite(S(), x + i, 1)) {
        job_.channels.refuse((k + i) / layout.plane_size() % layout.inner);
      }
    }
  }

  static void pack(int bits, const std::uint8_t* codes, std::int64_t begin, std::int64_t end,
                   std::byte* stream) {
    std::byte* const to = stream + begin / 8 * bits;
    const std::int64_t whole = (end - begin) / 8;
    pack_codes(bits, codes, whole, to);
    if (end - begin > whole * 8) {
      pack_tail(bits, codes + whole * 8, end - begin - whole * 8, to + whole * bits);
    }
  }

  const cpu::BlpaJob& job_;
  cpu::Workspace& work_;
  cpu::StretchReader reader_;
  BlpaCoder coder_;
  std::uint8_t* codes_ = nullptr;
  std::uint8_t* signs_ = nullptr;
  float* floats_ = nullptr;
  bool negative_ = false;
};

template <class S>
bool blpa_encode_of(const cpu::BlpaJob& job, const void* source, std::byte* out, std::int64_t first,
                    std::int64_t last, bool* negative) {
  BlpaEncoder<S> encoder(job, source, last);
  if (!encoder.prepare()) return false;
  for (std::int64_t k = first; k < last; k += cpu::kBlpaStretch) {
    if (!encoder.encode(k, std::min(last, k + cpu::kBlpaStretch), out)) return false;
  }
  *negative = encoder.negative();
  return true;
}

/// Encodes elements [first, last), by logical index. With with_sign, `*negative` tells whether one
/// was negative. @pre first is a multiple of 8, and last is one or the number of elements
/// @return false when memory ran out
bool blpa_encode(const cpu::BlpaJob& job, const void* source, std::byte* out, std::int64_t first,
                 std::int64_t last, bool* negative) {
  return with_element(job.what.type, [&](auto kind) {
    return blpa_encode_of<decltype(kind)>(job, source, out, first, last, negative);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
