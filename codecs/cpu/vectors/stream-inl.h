// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_STREAM_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_STREAM_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_STREAM_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Copies `count` elements past the caches.
template <typename T>
HWY_NOINLINE void stream_copy(const T* HWY_RESTRICT from, std::int64_t count, T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto past =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) / sizeof(T)) % lanes;
  std::int64_t i = std::min(count, (lanes - past) % lanes);
  std::memcpy(to, from, i * sizeof(T));
  for (; i + lanes <= count; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  std::memcpy(to + i, from + i, (count - i) * sizeof(T));
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
