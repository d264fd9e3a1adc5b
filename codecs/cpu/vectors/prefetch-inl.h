// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_PREFETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_PREFETCH_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_PREFETCH_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_PREFETCH_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

/// Prefetches `count` elements at `x`, which need not exist. For reads in bursts, page after page,
/// which the hardware does not predict.
template <typename T>
HWY_INLINE void prefetch(const T* x, std::int64_t count) {
  constexpr std::int64_t kCacheLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < count; i += kCacheLine) hwy::Prefetch(x + i);
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
