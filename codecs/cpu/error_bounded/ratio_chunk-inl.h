// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_CHUNK_INL_H_
#undef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_CHUNK_INL_H_
#else
#define CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_CHUNK_INL_H_
#endif

#include <cstdint>

#include "codecs/formats/error_bounded/error_bounded_ratio.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A chunk's escapes.
struct EscapeList {
  RatioEscape* HWY_RESTRICT list;
  std::int64_t count;
};

/// Subtracts from each of `size` codes the one `stride` before it; the first `stride` stay.
inline void subtract_before(std::int32_t* codes, std::int64_t size, std::int64_t stride) {
  const hn::ScalableTag<std::int32_t> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  std::int64_t i = size;
  for (; i - lanes >= stride; i -= lanes) {
    const auto before = hn::LoadU(di, codes + i - lanes - stride);
    hn::StoreU(hn::Sub(hn::LoadU(di, codes + i - lanes), before), di, codes + i - lanes);
  }
  for (; i > stride; --i) codes[i - 1] -= codes[i - 1 - stride];
}

/// The inverse of subtract_before. Wraps around on overflow, which damaged data may cause.
inline void add_before(std::int32_t* codes, std::int64_t size, std::int64_t stride) {
  const hn::ScalableTag<std::int32_t> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  std::int64_t i = stride;
  if (stride == 1) {
    std::uint32_t sum = static_cast<std::uint32_t>(codes[0]);
    for (; i < size; ++i) {
      sum += static_cast<std::uint32_t>(codes[i]);
      codes[i] = static_cast<std::int32_t>(sum);
    }
    return;
  }
  for (; stride >= lanes && i + lanes <= size; i += lanes) {
    const auto before = hn::LoadU(di, codes + i - stride);
    hn::StoreU(hn::Add(hn::LoadU(di, codes + i), before), di, codes + i);
  }
  for (; i < size; ++i) {
    codes[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(codes[i]) +
                                         static_cast<std::uint32_t>(codes[i - stride]));
  }
}

/// Calls f(codes, size, stride) for all boxes whose outermost axis a prediction runs along.
template <class F>
HWY_INLINE void for_each_predicted(Predictor predictor, const RatioChunks::Chunk& chunk,
                                   std::int32_t* codes, const F& f) {
  std::int64_t stride = 1;
  for (int axis = 3; axis >= 0; --axis) {
    const std::int64_t size = stride * chunk.extent[axis];
    if (predictor == (axis == 0 ? Predictor::plane : Predictor::lorenzo) &&
        chunk.extent[axis] > 1) {
      for (std::int64_t begin = 0; begin < chunk.count; begin += size) {
        f(codes + begin, size, stride);
      }
    }
    stride = size;
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
