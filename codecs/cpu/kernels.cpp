// SPDX-License-Identifier: Apache-2.0
// Kernels that families share, compiled once for each target.
#include "codecs/with_pattern.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/kernels.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/vectors/pack-inl.h"
#include "codecs/cpu/vectors/philox_lanes-inl.h"
#include "codecs/cpu/vectors/transpose_tiles-inl.h"
// clang-format on

#if HWY_ONCE

#include "codecs/cpu/planes.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(transpose);

}  // namespace

void cpu::transpose_elements(std::size_t element_size, const void* from, std::int64_t from_stride,
                             std::int64_t rows, std::int64_t columns, void* to,
                             std::int64_t to_stride, bool by_rows) noexcept {
  HWY_DYNAMIC_DISPATCH(transpose)
  (element_size, from, from_stride, rows, columns, to, to_stride, by_rows);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
