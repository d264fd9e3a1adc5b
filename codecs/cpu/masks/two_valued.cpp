// SPDX-License-Identifier: Apache-2.0
#include "codecs/two_valued.h"

#include "codecs/with_pattern.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/masks/two_valued.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/masks-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

/// Elements between two looks at whether a third pattern was seen.
inline constexpr std::int64_t kStretch = 1024;

template <typename T>
HWY_INLINE bool encode_as(const T* x, std::int64_t count, T first, T second, std::uint8_t* out) {
  const MaskTag<T> d;
  const auto is_first = hn::Set(d, first);
  const auto is_second = hn::Set(d, second);
  for (std::int64_t i = 0; i < count; i += kStretch) {
    // Lanes that were neither stay non-zero: x differs from both patterns.
    auto strange = hn::MaskFromVec(hn::Zero(d));
    masks(
        x + i, std::min(kStretch, count - i),
        [&](auto v) {
          const auto unlike_first = hn::Ne(v, is_first);
          const auto unlike_second = hn::Ne(v, is_second);
          strange = hn::Or(strange, hn::And(unlike_first, unlike_second));
          return unlike_first;
        },
        out + i / 8);
    if (!hn::AllFalse(d, strange)) return false;
  }
  return true;
}

/// Index of the first element that differs from `first`, or count.
template <typename T>
HWY_INLINE std::int64_t find_other_as(const T* x, std::int64_t count, T first) {
  const MaskTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if (!hn::AllTrue(d, hn::Eq(hn::LoadU(d, x + i), hn::Set(d, first)))) break;
  }
  while (i < count && x[i] == first) ++i;
  return i;
}

bool encode_two(std::size_t size, const void* x, std::int64_t count, std::uint64_t first,
                std::uint64_t second, std::byte* out) {
  return with_pattern(size, [&]<typename T>(T*) {
    return encode_as(static_cast<const T*>(x), count, static_cast<T>(first), static_cast<T>(second),
                     reinterpret_cast<std::uint8_t*>(out));
  });
}

std::int64_t find_other(std::size_t size, const void* x, std::int64_t count, std::uint64_t first) {
  return with_pattern(size, [&]<typename T>(T*) {
    return find_other_as(static_cast<const T*>(x), count, static_cast<T>(first));
  });
}

void decode_two(std::size_t size, const std::byte* in, std::int64_t count, std::uint64_t first,
                std::uint64_t second, void* x) {
  with_pattern(size, [&]<typename T>(T*) {
    select(reinterpret_cast<const std::uint8_t*>(in), count, static_cast<T>(second),
           static_cast<T>(first), static_cast<T*>(x));
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/runs.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_two);
HWY_EXPORT(find_other);
HWY_EXPORT(decode_two);

std::uint64_t pattern_at(const void* x, std::int64_t index, std::size_t size) {
  std::uint64_t pattern = 0;
  std::memcpy(&pattern, static_cast<const std::byte*>(x) + index * std::int64_t(size), size);
  return pattern;
}

class TwoValuedCpu final : public TwoValuedCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    std::memset(out.data(), 0, 2 * size);
    if (what.layout.elements() == 0) return {true, encoded_bytes(what)};
    const std::uint64_t first = pattern_at(source, 0, size);
    const std::uint64_t second = other_pattern(what, source, first);

    std::memcpy(out.data(), &first, size);
    std::memcpy(out.data() + size, &second, size);
    const auto kernel = HWY_DYNAMIC_DISPATCH(encode_two);
    std::byte* const bits = out.data() + 2 * size;
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          return kernel(size, run, count, first, second, bits + begin / 8);
        });
    return {good, good ? encoded_bytes(what) : 0};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    const std::uint64_t first = pattern_at(in.data(), 0, size);
    const std::uint64_t second = pattern_at(in.data(), 1, size);
    const auto kernel = HWY_DYNAMIC_DISPATCH(decode_two);
    const std::byte* const bits = in.data() + 2 * size;
    return cpu::write_runs(what, target, parallel,
                           [&](std::int64_t begin, std::int64_t count, void* run) {
                             kernel(size, bits + begin / 8, count, first, second, run);
                           });
  }

 private:
  /// The first pattern unlike `first` in logical order, or `first`: on one thread, because the
  /// answer must not depend on who finds one first, and nearly always found at once.
  static std::uint64_t other_pattern(const Description& what, const void* source,
                                     std::uint64_t first) {
    const std::size_t size = element_size(what.type);
    const auto kernel = HWY_DYNAMIC_DISPATCH(find_other);
    std::uint64_t other = first;
    cpu::read_runs(what, source, serial_for,
                   [&](std::int64_t /*begin*/, std::int64_t count, const void* run) {
                     const std::int64_t index = kernel(size, run, count, first);
                     if (index == count) return true;
                     other = pattern_at(run, index, size);
                     return false;
                   });
    return other;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_two_valued_cpu() {
  return std::make_shared<TwoValuedCpu>();
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
