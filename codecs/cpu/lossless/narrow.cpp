// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/narrow.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/lossless/narrow.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/lossless/wide_bits-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

/// Calls f with a null pointer to the type that holds elements of `type`.
template <class F>
HWY_INLINE auto with_integer(ElementType type, const F& f) {
  switch (type) {
    case ElementType::uint8:
      return f(static_cast<std::uint8_t*>(nullptr));
    case ElementType::int16:
      return f(static_cast<std::int16_t*>(nullptr));
    case ElementType::int32:
      return f(static_cast<std::int32_t*>(nullptr));
    default:
      return f(static_cast<std::int64_t*>(nullptr));
  }
}

template <typename T>
HWY_INLINE void widen_range(const T* HWY_RESTRICT x, std::int64_t count, std::int64_t& min,
                            std::int64_t& max) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  T low = x[0];
  T high = x[0];
  std::int64_t i = 0;
  if (count >= lanes) {
    auto lows = hn::LoadU(d, x);
    auto highs = lows;
    for (i = lanes; i + lanes <= count; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      lows = hn::Min(lows, v);
      highs = hn::Max(highs, v);
    }
    HWY_ALIGN T rest[2][HWY_MAX_BYTES / sizeof(T)];
    hn::Store(lows, d, rest[0]);
    hn::Store(highs, d, rest[1]);
    low = *std::min_element(rest[0], rest[0] + lanes);
    high = *std::max_element(rest[1], rest[1] + lanes);
  }
  for (; i < count; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  min = std::min<std::int64_t>(min, low);
  max = std::max<std::int64_t>(max, high);
}

/// Writes the distances from `min`. They fit 32 bits, so 32-bit arithmetic suffices.
template <typename T>
HWY_INLINE void distances(const T* HWY_RESTRICT x, std::int64_t count, std::uint32_t min,
                          std::uint32_t* HWY_RESTRICT codes) {
  using Unsigned = hwy::MakeUnsigned<T>;
  // As many lanes as the wider side has.
  using Tag = hn::ScalableTag<std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;
  const hn::Rebind<std::uint32_t, Tag> d32;
  const hn::Rebind<T, Tag> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d32));
  const auto zero = hn::Set(d32, min);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    if constexpr (sizeof(T) == 8) {
      const hn::Rebind<Unsigned, Tag> du;
      hn::StoreU(hn::Sub(hn::TruncateTo(d32, hn::BitCast(du, v)), zero), d32, codes + i);
    } else if constexpr (sizeof(T) == 4) {
      hn::StoreU(hn::Sub(hn::BitCast(d32, v), zero), d32, codes + i);
    } else {
      const hn::RebindToSigned<decltype(d32)> di32;
      hn::StoreU(hn::Sub(hn::BitCast(d32, hn::PromoteTo(di32, v)), zero), d32, codes + i);
    }
  }
  for (; i < count; ++i) codes[i] = static_cast<std::uint32_t>(x[i]) - min;
}

/// The inverse of distances, modulo the type's range.
template <typename T>
HWY_INLINE void add_distances(const std::uint32_t* HWY_RESTRICT codes, std::int64_t count,
                              std::int64_t min, T* HWY_RESTRICT x) {
  using Unsigned = hwy::MakeUnsigned<T>;
  using Tag = hn::ScalableTag<std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;
  const hn::Rebind<std::uint32_t, Tag> d32;
  const hn::Rebind<Unsigned, Tag> du;
  auto* const to = reinterpret_cast<Unsigned*>(x);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d32));
  const auto zero = static_cast<Unsigned>(min);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d32, codes + i);
    if constexpr (sizeof(T) == 8) {
      hn::StoreU(hn::Add(hn::PromoteTo(du, v), hn::Set(du, zero)), du, to + i);
    } else if constexpr (sizeof(T) == 4) {
      hn::StoreU(hn::Add(v, hn::Set(du, zero)), du, to + i);
    } else {
      const auto sum = hn::Add(v, hn::Set(d32, static_cast<std::uint32_t>(min)));
      hn::StoreU(hn::TruncateTo(du, sum), du, to + i);
    }
  }
  for (; i < count; ++i) to[i] = static_cast<Unsigned>(zero + codes[i]);
}

void narrow_range(ElementType type, const void* x, std::int64_t count, std::int64_t* min,
                  std::int64_t* max) {
  with_integer(type,
               [&]<typename T>(T*) { widen_range(static_cast<const T*>(x), count, *min, *max); });
}

void narrow_encode(const NarrowHeader& header, const void* x, std::int64_t count, std::byte* out) {
  HWY_ALIGN std::uint32_t codes[kWideTile];
  with_integer(header.type, [&]<typename T>(T*) {
    for (std::int64_t i = 0; i < count; i += kWideTile) {
      const std::int64_t some = std::min(kWideTile, count - i);
      distances(static_cast<const T*>(x) + i, some, static_cast<std::uint32_t>(header.min), codes);
      pack_wide(header.bits, codes, some, out + i / 8 * header.bits);
    }
  });
}

void narrow_decode(const NarrowHeader& header, const std::byte* in, std::int64_t size,
                   std::int64_t count, void* x) {
  HWY_ALIGN std::uint32_t codes[kWideTile];
  if (header.bits == 0) std::fill_n(codes, kWideTile, 0U);
  with_integer(header.type, [&]<typename T>(T*) {
    for (std::int64_t i = 0; i < count; i += kWideTile) {
      const std::int64_t some = std::min(kWideTile, count - i);
      const std::int64_t at = i / 8 * header.bits;
      if (header.bits != 0) unpack_wide(header.bits, in + at, size - at, some, codes);
      add_distances(codes, some, header.min, static_cast<T*>(x) + i);
    }
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <limits>
#include <mutex>
#include <span>

#include "codecs/cpu/runs.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(narrow_range);
HWY_EXPORT(narrow_encode);
HWY_EXPORT(narrow_decode);

class NarrowCpu final : public NarrowCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    NarrowHeader header = NarrowHeader::of(what.type, 0, 0);
    if (what.layout.elements() != 0 && !survey(what, source, parallel, header)) return {};
    if (header.bits > kNarrowMaxBits) return {};
    header.write(out.data());
    const Encoded result = {true, encoded_size(what.layout, header.bits)};
    if (header.bits == 0) return result;
    std::byte* const codes = out.data() + kNarrowHeaderBytes;
    const auto kernel = HWY_DYNAMIC_DISPATCH(narrow_encode);
    const bool good = cpu::read_runs(what, source, parallel,
                                     [&](std::int64_t begin, std::int64_t count, const void* run) {
                                       kernel(header, run, count, codes + begin / 8 * header.bits);
                                       return true;
                                     });
    return good ? result : Encoded{};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    NarrowHeader header;
    if (!read_header(what, in, reads, header)) return false;
    const std::span<const std::byte> codes = in.subspan(kNarrowHeaderBytes);
    const auto kernel = HWY_DYNAMIC_DISPATCH(narrow_decode);
    return cpu::write_runs(what, target, parallel,
                           [&](std::int64_t begin, std::int64_t count, void* run) {
                             const std::int64_t at = begin / 8 * header.bits;
                             kernel(header, codes.data() + at,
                                    static_cast<std::int64_t>(codes.size()) - at, count, run);
                           });
  }

 private:
  /// Computes the header for all elements. @return false when memory ran out
  static bool survey(const Description& what, const void* source, ParallelFor parallel,
                     NarrowHeader& header) {
    std::mutex merging;
    std::int64_t min = std::numeric_limits<std::int64_t>::max();
    std::int64_t max = std::numeric_limits<std::int64_t>::min();
    const auto kernel = HWY_DYNAMIC_DISPATCH(narrow_range);
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t /*begin*/, std::int64_t count, const void* run) {
          std::int64_t low = std::numeric_limits<std::int64_t>::max();
          std::int64_t high = std::numeric_limits<std::int64_t>::min();
          kernel(what.type, run, count, &low, &high);
          const std::lock_guard<std::mutex> lock(merging);
          min = std::min(min, low);
          max = std::max(max, high);
          return true;
        });
    if (good) header = NarrowHeader::of(what.type, min, max);
    return good;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_narrow_cpu() {
  return std::make_shared<NarrowCpu>();
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
