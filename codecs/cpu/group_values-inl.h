// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_VALUES_INL_H_
#undef CINCH_CODECS_CPU_GROUP_VALUES_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_VALUES_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codecs/affine.h"
#include "codecs/cpu/element_kinds-inl.h"
#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// affine_value for stretches of codes of one range. The kernels write a number of vectors at a
// time: kernel(codes, store), where store(i, vector) puts a vector where element i belongs.

/// Writes `count` elements from as many codes, `block` at a time by `kernel`. Reads up to a vector
/// of codes beyond, and writes nothing beyond.
template <class D, class F>
HWY_INLINE void write_blocks(D d, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                             std::int64_t block, bool past_caches, hn::TFromD<D>* HWY_RESTRICT x,
                             const F& kernel) {
  std::int64_t i = 0;
  if (past_caches && reinterpret_cast<std::uintptr_t>(x) % (hn::Lanes(d) * sizeof(*x)) == 0) {
    for (; i + block <= count; i += block) {
      kernel(codes + i, [&](std::size_t at, auto v) HWY_ATTR { hn::Stream(v, d, x + i + at); });
    }
  } else {
    for (; i + block <= count; i += block) {
      kernel(codes + i, [&](std::size_t at, auto v) HWY_ATTR { hn::StoreU(v, d, x + i + at); });
    }
  }
  if (i == count) return;
  HWY_ALIGN hn::TFromD<D> rest[2 * HWY_MAX_BYTES];
  kernel(codes + i, [&](std::size_t at, auto v) HWY_ATTR { hn::StoreU(v, d, rest + at); });
  std::memcpy(x + i, rest, (count - i) * sizeof(*x));
}

HWY_INLINE void group_values(Float32, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                             AffineRange range, int /*bits*/, bool past_caches,
                             float* HWY_RESTRICT x) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const auto lo = hn::Set(df, float_of_bf16(range.lo));
  const auto step = hn::Set(df, float_of_bf16(range.step));
  write_blocks(df, codes, count, static_cast<std::int64_t>(hn::Lanes(df)), past_caches, x,
               [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                 const auto v = hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d8, code)));
                 store(0, hn::Add(lo, hn::Mul(step, v)));
               });
}

/// The bit patterns of 16-bit elements for at most 16 codes, low and high bytes apart.
template <class S>
class ValueTable {
  using D8 = hn::ScalableTag<std::uint8_t>;

 public:
  HWY_INLINE explicit ValueTable(AffineRange range) {
    const hn::CappedTag<float, 16> df;
    const hn::Rebind<std::uint8_t, decltype(df)> d8;
    const auto lanes = hn::Lanes(df);
    const auto lo = hn::Set(df, float_of_bf16(range.lo));
    const auto step = hn::Set(df, float_of_bf16(range.step));
    for (std::size_t i = 0; i < 16; i += lanes) {
      const auto codes = hn::Iota(df, static_cast<float>(i));
      const auto bits = S::bits(df, hn::Add(lo, hn::Mul(step, codes)));
      hn::StoreU(hn::TruncateTo(d8, bits), d8, low_ + i);
      hn::StoreU(hn::TruncateTo(d8, hn::ShiftRight<8>(bits)), d8, high_ + i);
    }
  }

  HWY_INLINE void run(const std::uint8_t* HWY_RESTRICT codes, std::int64_t count, bool past_caches,
                      std::uint16_t* HWY_RESTRICT x) const {
    const D8 d8;
    const hn::Repartition<std::uint16_t, D8> d16;
    const hn::Repartition<std::uint32_t, D8> d32;
    // Eights of codes, so that those of low and high halves of blocks become neighbours.
    HWY_ALIGN std::int32_t order[HWY_MAX_BYTES / 4];
    const auto blocks = static_cast<std::int32_t>(hn::Lanes(d8) / 16);
    for (std::int32_t i = 0; i < 4 * blocks; ++i) {
      const std::int32_t eight = i / 2;
      order[i] = (eight / 2 + eight % 2 * blocks) * 2 + i % 2;
    }
    const auto indices = hn::SetTableIndices(d32, order);
    const auto low = hn::LoadDup128(d8, low_);
    const auto high = hn::LoadDup128(d8, high_);
    write_blocks(d16, codes, count, static_cast<std::int64_t>(hn::Lanes(d8)), past_caches, x,
                 [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                   const auto loaded = hn::BitCast(d32, hn::LoadU(d8, code));
                   const auto c = hn::BitCast(d8, hn::TableLookupLanes(loaded, indices));
                   const auto l = hn::TableLookupBytes(low, c);
                   const auto h = hn::TableLookupBytes(high, c);
                   store(0, hn::BitCast(d16, hn::InterleaveLower(d8, l, h)));
                   store(hn::Lanes(d16), hn::BitCast(d16, hn::InterleaveUpper(d8, l, h)));
                 });
  }

 private:
  alignas(16) std::uint8_t low_[16];
  alignas(16) std::uint8_t high_[16];
};

template <class S>
HWY_INLINE void group_values(S, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                             AffineRange range, int bits, bool past_caches,
                             std::uint16_t* HWY_RESTRICT x) {
  if (bits <= 4) {
    ValueTable<S>(range).run(codes, count, past_caches, x);
    return;
  }
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Repartition<std::uint16_t, decltype(df)> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  const auto lo = hn::Set(df, float_of_bf16(range.lo));
  const auto step = hn::Set(df, float_of_bf16(range.step));
  const auto value = [&](auto code) HWY_ATTR {
    return S::bits(df, hn::Add(lo, hn::Mul(step, hn::ConvertTo(df, hn::BitCast(di, code)))));
  };
  write_blocks(
      d16, codes, count, static_cast<std::int64_t>(hn::Lanes(d16)), past_caches, x,
      [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
        const auto pairs = hn::BitCast(du, hn::PromoteTo(d16, hn::LoadU(d8, code)));
        const auto low = value(hn::And(pairs, hn::Set(du, 0xFF)));
        const auto high = value(hn::ShiftRight<16>(pairs));
        store(0, hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(high)), hn::BitCast(d16, low)));
      });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
