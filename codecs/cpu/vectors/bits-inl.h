// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_BITS_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_BITS_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_BITS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Packs 8 * groups codes into groups * bits bytes. Loads up to a vector past the codes.
void pack_codes(int bits, const std::uint8_t* codes, std::int64_t groups, std::byte* out);

/// Packs the last codes of a stream, fewer than eight, into as many bytes as they need.
HWY_INLINE void pack_tail(int bits, const std::uint8_t* codes, std::int64_t count, std::byte* out) {
  std::uint64_t packed = 0;
  for (std::int64_t i = 0; i < count; ++i) packed |= std::uint64_t{codes[i]} << (i * bits);
  std::memcpy(out, &packed, (count * bits + 7) / 8);
}

/// Unpacks codes [begin, begin + count) of the stream `in` of `size` bytes.
/// @return the codes, with a readable vector behind them: in `buffer`, which has room for count + 8
/// codes and a vector, or in the stream itself
const std::uint8_t* unpack_codes(int bits, const std::byte* in, std::int64_t size,
                                 std::int64_t begin, std::int64_t count, std::uint8_t* buffer);

/// Reads the codes of consecutive elements, unpacked a stretch at a time.
class CodeReader {
 public:
  /// The most codes that one call of `at` may ask for.
  static constexpr std::int64_t kMost = 1024;

  /// `in` has `size` bytes; codes from index `end` on will not be read.
  CodeReader(int bits, const std::byte* in, std::int64_t size, std::int64_t end)
      : bits_(bits), in_(in), size_(size), end_(end) {}

  /// @return false when memory ran out
  bool prepare(cpu::Buffer& buffer) {
    const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
    buffer_ = buffer.get<std::uint8_t>(kCodes + 8 + 2 * slack);
    return buffer_ != nullptr;
  }

  /// Codes [k, k + count), with a readable vector of bytes behind them.
  HWY_INLINE const std::uint8_t* at(std::int64_t k, std::int64_t count) {
    if (k < first_ || k + count > first_ + made_) unpack(k);
    return codes_ + (k - first_);
  }

 private:
  HWY_NOINLINE void unpack(std::int64_t k) {
    first_ = k;
    made_ = std::min(kCodes, end_ - k);
    codes_ = unpack_codes(bits_, in_, size_, k, made_, buffer_);
  }

  static constexpr std::int64_t kCodes = 4 * kMost;

  int bits_;
  const std::byte* in_;
  std::int64_t size_;
  std::int64_t end_;
  std::int64_t first_ = 0;
  std::int64_t made_ = 0;
  std::uint8_t* buffer_ = nullptr;
  const std::uint8_t* codes_ = nullptr;
};

/// Writes a bit stream from codes, in order. Codes that don't fill a byte yet wait.
class CodeStream {
 public:
  CodeStream(int bits, std::byte* out) : bits_(bits), out_(out) {}

  /// Room for the next `n` codes and `slack` bytes, behind the waiting codes; null when memory ran
  /// out. @pre `n` is the same in every call: the buffer must not move while codes wait in it
  std::uint8_t* room(cpu::Buffer& buffer, std::int64_t n, std::int64_t slack) {
    codes_ = buffer.get<std::uint8_t>(n + 8 + slack);
    return codes_ == nullptr ? nullptr : codes_ + waiting_;
  }

  void push(std::int64_t n) {
    const std::int64_t groups = (waiting_ + n) / 8;
    pack_codes(bits_, codes_, groups, out_);
    out_ += groups * bits_;
    waiting_ = (waiting_ + n) % 8;
    std::memmove(codes_, codes_ + groups * 8, waiting_);
  }

  void finish() {
    if (waiting_ != 0) pack_tail(bits_, codes_, waiting_, out_);
  }

 private:
  int bits_;
  std::byte* out_;
  std::uint8_t* codes_ = nullptr;
  std::int64_t waiting_ = 0;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
