// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/two_valued.h"

#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/masks/kernels.h"
#include "codecs/cpu/runs.h"

namespace cinch::codecs {
namespace {

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
    std::byte* const bits = out.data() + 2 * size;
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          return cpu::encode_two(size, run, count, first, second, bits + begin / 8);
        });
    return {good, good ? encoded_bytes(what) : 0};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    const std::uint64_t first = pattern_at(in.data(), 0, size);
    const std::uint64_t second = pattern_at(in.data(), 1, size);
    const std::byte* const bits = in.data() + 2 * size;
    return cpu::write_runs(
        what, target, parallel, [&](std::int64_t begin, std::int64_t count, void* run) {
          cpu::select_patterns(size, bits + begin / 8, count, second, first, run);
        });
  }

 private:
  /// The first pattern in logical order that differs from `first`, or `first` if none does. Runs on
  /// one thread, so that the result does not depend on timing; nearly always found at once.
  static std::uint64_t other_pattern(const Description& what, const void* source,
                                     std::uint64_t first) {
    const std::size_t size = element_size(what.type);
    std::uint64_t other = first;
    cpu::read_runs(what, source, serial_for,
                   [&](std::int64_t /*begin*/, std::int64_t count, const void* run) {
                     const std::int64_t index = cpu::find_other(size, run, count, first);
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
