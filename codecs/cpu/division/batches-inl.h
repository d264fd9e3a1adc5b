// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_BATCHES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_BATCHES_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_BATCHES_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_BATCHES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// Calls `f(x, pitch, p, count)` for planes [first, last), at most `batch` at a time: planes from p
/// on, each in logical order, lie `pitch` elements apart at `x`, with a readable vector of bytes
/// behind. @return false when memory ran out
template <class Elements, class F>
bool for_each_batch(const PlaneLayout& layout, const typename Elements::Raw* source,
                    std::int64_t first, std::int64_t last, std::int64_t batch, cpu::Buffer& buffer,
                    const F& f) {
  using T = typename Elements::Raw;
  const std::int64_t n = layout.plane_size();
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  const bool contiguous = layout.is_contiguous();
  const std::int64_t tile = contiguous ? batch : cpu::planes_per_tile(layout, sizeof(T));
  for (std::int64_t p = first; p < last; p += tile) {
    const std::int64_t count = std::min(tile, last - p);
    const T* x = source + p * n;
    std::int64_t pitch = n;
    if (!contiguous || (p + count) * n + slack > layout.elements()) {
      pitch = cpu::gathered_pitch(layout, sizeof(T));
      T* const gathered = buffer.get<T>(tile * pitch + slack);
      if (gathered == nullptr) return false;
      cpu::gather_planes(layout, sizeof(T), source, p, count, gathered, pitch);
      x = gathered;
    }
    for (std::int64_t k = 0; k < count; k += batch) {
      f(x + k * pitch, pitch, p + k, std::min(batch, count - k));
    }
  }
  return true;
}

}  // namespace division
}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
