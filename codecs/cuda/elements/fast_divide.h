// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "codecs/host_device.h"

namespace cinch::codecs::cuda {

/// Division of numbers below 2^31 by a divisor that is known before a kernel starts: a
/// multiplication and a shift (Granlund and Montgomery, "Division by Invariant Integers", 1994).
class FastDivide {
 public:
  FastDivide() = default;
  /// @pre 1 <= divisor < 2^31
  explicit FastDivide(std::int64_t divisor) noexcept
      : divisor_(static_cast<std::uint32_t>(divisor)) {
    // 2^(l-1) < divisor <= 2^l: the multiplier has exactly 32 bits.
    shift_ = static_cast<std::uint32_t>(31 + std::bit_width(divisor_ - 1));
    multiplier_ = static_cast<std::uint32_t>((std::uint64_t{1} << shift_) / divisor_ + 1);
  }

  CINCH_HD std::uint32_t divisor() const noexcept { return divisor_; }

  /// @pre n < 2^31
  CINCH_HD std::uint32_t quotient(std::uint32_t n) const noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{n} * multiplier_ >> shift_);
  }

  /// Gives the quotient and leaves the remainder in n. @pre n < 2^31
  CINCH_HD std::uint32_t split(std::uint32_t& n) const noexcept {
    const std::uint32_t q = quotient(n);
    n -= q * divisor_;
    return q;
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = 0x80000001U;
  std::uint32_t shift_ = 31;
};

}  // namespace cinch::codecs::cuda
