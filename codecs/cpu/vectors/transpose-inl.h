// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_TRANSPOSE_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_TRANSPOSE_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_TRANSPOSE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[c * to_stride + r] = from[r * from_stride + c] for all r < rows, c < columns, of elements of
/// 1, 2, 4 or 8 bytes. `by_rows`: `from` is main memory and is traversed in order; otherwise `to`
/// is.
void transpose(std::size_t element_size, const void* from, std::int64_t from_stride,
               std::int64_t rows, std::int64_t columns, void* to, std::int64_t to_stride,
               bool by_rows);

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
