// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "codecs/formats/lossless/exponent_pack.h"

namespace cinch::codecs::cpu {

/// Intermediate forms of the elements of one of exponent_pack's blocks. Kernels may load and store
/// up to a vector past the last element.
template <typename T>
struct PackScratch {
  static constexpr std::size_t room = kPackElements + 2 * 64;  // of AVX-512's vectors
  std::array<T, room> held;
  std::array<std::uint8_t, room> tops;
  std::array<std::uint8_t, room> codes;
  std::array<std::uint64_t, kPackElements / 64> mask;
};

}  // namespace cinch::codecs::cpu
