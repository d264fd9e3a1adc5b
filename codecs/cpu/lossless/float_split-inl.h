// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_LOSSLESS_FLOAT_SPLIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_LOSSLESS_FLOAT_SPLIT_INL_H_
#undef CINCH_CODECS_CPU_LOSSLESS_FLOAT_SPLIT_INL_H_
#else
#define CINCH_CODECS_CPU_LOSSLESS_FLOAT_SPLIT_INL_H_
#endif

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/masks-inl.h"
#include "codecs/float_split_chunk.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls f with a null pointer to the unsigned type of `size` bytes: 2, 4 or 8.
template <class F>
HWY_INLINE void with_word(std::size_t size, const F& f) {
  switch (size) {
    case 2:
      return f(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return f(static_cast<std::uint32_t*>(nullptr));
    default:
      return f(static_cast<std::uint64_t*>(nullptr));
  }
}

/// How the elements of 16 bytes move when those whose bit is not set are left out, and back: which
/// byte goes where, for every mask of `Lanes` bits. 0x80 makes a 0.
template <int Lanes>
struct MoveTable {
  using Moves = std::array<std::array<std::uint8_t, 16>, 1 << Lanes>;
  Moves pack{};
  Moves spread{};

  constexpr MoveTable() {
    constexpr int kSize = 16 / Lanes;
    for (unsigned mask = 0; mask < 1U << Lanes; ++mask) {
      pack[mask].fill(0x80);
      spread[mask].fill(0x80);
      int next = 0;
      for (int lane = 0; lane < Lanes; ++lane) {
        if ((mask >> lane & 1U) == 0) continue;
        for (int b = 0; b < kSize; ++b) {
          pack[mask][next * kSize + b] = static_cast<std::uint8_t>(lane * kSize + b);
          spread[mask][lane * kSize + b] = static_cast<std::uint8_t>(next * kSize + b);
        }
        ++next;
      }
    }
  }
};

template <typename T>
inline constexpr MoveTable<16 / sizeof(T)> kMoves;

/// Calls `f(first element, bits)` for the mask's every 16 bytes of elements.
template <typename T, class F>
HWY_INLINE void for_each_16_bytes(const std::byte* HWY_RESTRICT mask, std::int64_t n, const F& f) {
  constexpr int kLanes = 16 / sizeof(T);
  for (std::int64_t i = 0; i < n; i += 8) {
    const auto bits = std::to_integer<unsigned>(mask[i / 8]);
    for (int lane = 0; lane < 8; lane += kLanes) {
      f(i + lane, bits >> lane & ((1U << kLanes) - 1));
    }
  }
}

/// May write 16 bytes past the packed elements.
template <typename T>
HWY_INLINE void pack_nonzeros_as(const T* HWY_RESTRICT x, const std::byte* HWY_RESTRICT mask,
                                 std::int64_t n, T* HWY_RESTRICT packed) {
  const hn::FixedTag<std::uint8_t, 16> d;
  T* next = packed;
  const std::int64_t whole = n / 8 * 8;
  for_each_16_bytes<T>(mask, whole, [&](std::int64_t i, unsigned bits) HWY_ATTR {
    const auto v = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(x + i));
    const auto moves = hn::LoadU(d, kMoves<T>.pack[bits].data());
    hn::StoreU(hn::TableLookupBytesOr0(v, moves), d, reinterpret_cast<std::uint8_t*>(next));
    next += std::popcount(bits);
  });
  for (std::int64_t i = whole; i < n; ++i) {
    *next = x[i];
    next += std::to_integer<unsigned>(mask[i / 8]) >> i % 8 & 1U;
  }
}

/// May read 16 bytes past the packed elements.
template <typename T>
HWY_INLINE void spread_nonzeros_as(const T* HWY_RESTRICT packed, const std::byte* HWY_RESTRICT mask,
                                   std::int64_t n, T* HWY_RESTRICT x) {
  const hn::FixedTag<std::uint8_t, 16> d;
  const T* next = packed;
  const std::int64_t whole = n / 8 * 8;
  for_each_16_bytes<T>(mask, whole, [&](std::int64_t i, unsigned bits) HWY_ATTR {
    const auto v = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(next));
    const auto moves = hn::LoadU(d, kMoves<T>.spread[bits].data());
    hn::StoreU(hn::TableLookupBytesOr0(v, moves), d, reinterpret_cast<std::uint8_t*>(x + i));
    next += std::popcount(bits);
  });
  for (std::int64_t i = whole; i < n; ++i) {
    const bool set = (std::to_integer<unsigned>(mask[i / 8]) >> i % 8 & 1U) != 0;
    x[i] = set ? *next : T{0};
    next += set ? 1 : 0;
  }
}

/// Bytes J and on of each lane, the most significant first, to their planes.
template <int J, class D, class V>
HWY_INLINE void store_planes(D d, V v, std::byte* planes) {
  using T = hn::TFromD<D>;
  const hn::Rebind<std::uint8_t, D> d8;
  if constexpr (J < static_cast<int>(sizeof(T))) {
    const auto bytes = hn::TruncateTo(d8, hn::ShiftRight<8 * (sizeof(T) - 1 - J)>(v));
    hn::StoreU(bytes, d8, reinterpret_cast<std::uint8_t*>(planes + J * kSplitPlaneStride));
    store_planes<J + 1>(d, v, planes);
  }
}

template <typename T>
HWY_INLINE void split_as(const T* HWY_RESTRICT x, std::int64_t n, std::byte* HWY_RESTRICT planes) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    const auto top = hn::ShiftRight<8 * sizeof(T) - 1>(v);
    store_planes<0>(d, hn::Or(hn::ShiftLeft<1>(v), top), planes + i);
  }
  for (; i < n; ++i) {
    const T rotated = std::rotl(x[i], 1);
    for (std::size_t j = 0; j < sizeof(T); ++j) {
      planes[j * kSplitPlaneStride + i] =
          static_cast<std::byte>(rotated >> (8 * (sizeof(T) - 1 - j)));
    }
  }
}

/// As many bytes as `d` has lanes, each in one of them.
template <class D>
HWY_INLINE hn::VFromD<D> load_plane(D d, const std::byte* plane) {
  using T = hn::TFromD<D>;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto bytes = hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(plane));
  if constexpr (sizeof(T) == 8) {
    const hn::Rebind<std::uint32_t, D> d32;
    return hn::PromoteTo(d, hn::PromoteTo(d32, bytes));
  } else {
    return hn::PromoteTo(d, bytes);
  }
}

template <typename T>
HWY_INLINE void merge_as(const std::byte* const* planes, std::int64_t n, T* HWY_RESTRICT x) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto rotated = load_plane(d, planes[0] + i);
    for (std::size_t j = 1; j < sizeof(T); ++j) {
      rotated = hn::Or(hn::ShiftLeft<8>(rotated), load_plane(d, planes[j] + i));
    }
    const auto top = hn::ShiftLeft<8 * sizeof(T) - 1>(rotated);
    hn::StoreU(hn::Or(hn::ShiftRight<1>(rotated), top), d, x + i);
  }
  for (; i < n; ++i) {
    T rotated = 0;
    for (std::size_t j = 0; j < sizeof(T); ++j) {
      rotated = static_cast<T>(rotated << 8 | std::to_integer<T>(planes[j][i]));
    }
    x[i] = std::rotr(rotated, 1);
  }
}

void find_nonzeros(std::size_t size, const void* x, std::int64_t n, std::byte* mask) {
  with_word(size, [&]<typename T>(T*) {
    const MaskTag<T> d;
    masks(
        static_cast<const T*>(x), n, [&](auto v) { return hn::Ne(v, hn::Zero(d)); },
        reinterpret_cast<std::uint8_t*>(mask));
  });
}

void pack_nonzeros(std::size_t size, const void* x, const std::byte* mask, std::int64_t n,
                   void* packed) {
  with_word(size, [&]<typename T>(T*) {
    pack_nonzeros_as(static_cast<const T*>(x), mask, n, static_cast<T*>(packed));
  });
}

void spread_nonzeros(std::size_t size, const void* packed, const std::byte* mask, std::int64_t n,
                     void* x) {
  with_word(size, [&]<typename T>(T*) {
    spread_nonzeros_as(static_cast<const T*>(packed), mask, n, static_cast<T*>(x));
  });
}

void split(std::size_t size, const void* x, std::int64_t n, std::byte* planes) {
  with_word(size, [&]<typename T>(T*) { split_as(static_cast<const T*>(x), n, planes); });
}

void merge(std::size_t size, const std::byte* const* planes, std::int64_t n, void* x) {
  with_word(size, [&]<typename T>(T*) { merge_as(planes, n, static_cast<T*>(x)); });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
