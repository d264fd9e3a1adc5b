// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/formats/masks/interval.h"
#include "codecs/formats/masks/with_bounds.h"

/// Kernels of codecs that hold one bit an element, dispatched to this processor's target. Elements
/// have 2, 4 or 8 bytes unless noted; unused bits of the last byte are 0.
namespace cinch::codecs::cpu {

/// Writes x > 0 of `count` elements of `size` bytes, one bit each. @return false if one is a NaN
/// @param infinity the bit pattern of the type's infinity
bool encode_signs(std::size_t size, const void* x, std::int64_t count, std::uint64_t infinity,
                  std::byte* out);

/// The same, with bit 0 for NaNs. @return false when an element is negative
bool encode_positives(std::size_t size, const void* x, std::int64_t count, std::uint64_t infinity,
                      std::byte* out);

/// Zeroes the elements whose bits are 0, except NaNs.
void zero_others(std::size_t size, const std::byte* bits, std::int64_t count,
                 std::uint64_t infinity, void* x);

/// Makes elements agree with their bits, x > 0, except NaNs: an element that does not becomes the
/// pattern `least` where its bit is 1, and the negative of that where it is 0.
void agree_with_signs(std::size_t size, const std::byte* bits, std::int64_t count,
                      std::uint64_t infinity, std::uint64_t least, void* x);

/// Makes elements, of 2 or 4 bytes, agree with their bits, whether they are above `bound`, except
/// NaNs: an element that does not becomes the nearest value that does.
void agree_with_bound(std::size_t size, const std::byte* bits, std::int64_t count,
                      std::uint64_t infinity, const BoundPatterns& bound, void* x);

/// Writes whether elements, of 2 or 4 bytes, lie strictly within `bounds`, one bit each.
/// @return false if one is NaN
bool encode_inside(std::size_t size, const void* x, std::int64_t count,
                   const IntervalPatterns& bounds, std::uint64_t infinity, std::byte* out);

/// Writes whether elements, of 1 to 8 bytes, differ from `first`, one bit each. @return false when
/// one also differs from `second`
bool encode_two(std::size_t size, const void* x, std::int64_t count, std::uint64_t first,
                std::uint64_t second, std::byte* out);

/// Index of the first element that differs from `first`, or count.
std::int64_t find_other(std::size_t size, const void* x, std::int64_t count, std::uint64_t first);

/// Writes `set` or `clear` for each of `count` bits, as elements of 1, 2, 4 or 8 bytes.
void select_patterns(std::size_t size, const std::byte* bits, std::int64_t count, std::uint64_t set,
                     std::uint64_t clear, void* x);

}  // namespace cinch::codecs::cpu
