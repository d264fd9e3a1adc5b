// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "tests/bench/codec_bench/subject.h"

namespace cinch::bench {

/// A single-threaded compressor, run over consecutive pieces of whole planes.
///
/// Encoded: the size of each piece, then a slot for each piece, large enough for whatever it comes
/// to. The slots' unused ends are not counted as encoded data.
class PiecewiseSubject : public Subject {
 public:
  std::size_t capacity(const codecs::Description& what) const final {
    const Cut cut(what);
    return cut.pieces * (sizeof(std::uint64_t) + slot(cut));
  }

  std::optional<std::size_t> encode(const codecs::Description& what,
                                    std::span<const std::byte> source, std::span<std::byte> out,
                                    std::uint64_t /*round*/,
                                    codecs::ParallelFor parallel) const final {
    const Cut cut(what);
    const std::size_t room = slot(cut);
    std::byte* const slots = out.data() + cut.pieces * sizeof(std::uint64_t);
    std::atomic<std::size_t> total = cut.pieces * sizeof(std::uint64_t);
    std::atomic<bool> failed = false;
    const auto body = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::uint64_t size = compress(source.subspan(i * cut.bytes, cut.bytes_of(i)),
                                            cut.width, std::span(slots + i * room, room));
        std::memcpy(out.data() + i * sizeof size, &size, sizeof size);
        total += size;
        if (size == 0) failed = true;
      }
    };
    codecs::for_range(parallel, static_cast<std::int64_t>(cut.pieces), 1, body);
    if (failed) return std::nullopt;
    return total;
  }

  bool decode(const codecs::Description& what, std::span<const std::byte> in,
              std::span<std::byte> target, codecs::ParallelFor parallel) const final {
    const Cut cut(what);
    const std::size_t room = slot(cut);
    const std::byte* const slots = in.data() + cut.pieces * sizeof(std::uint64_t);
    std::atomic<bool> failed = false;
    const auto body = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::uint64_t size;
        std::memcpy(&size, in.data() + i * sizeof size, sizeof size);
        if (!decompress(std::span(slots + i * room, size), cut.width,
                        target.subspan(i * cut.bytes, cut.bytes_of(i)))) {
          failed = true;
        }
      }
    };
    codecs::for_range(parallel, static_cast<std::int64_t>(cut.pieces), 1, body);
    return !failed;
  }

 protected:
  /// The most that `bytes` of lines of `width` elements compress to.
  virtual std::size_t bound(std::size_t bytes, std::size_t width) const = 0;
  /// Size of what was written; 0 on failure.
  virtual std::size_t compress(std::span<const std::byte> source, std::size_t width,
                               std::span<std::byte> out) const = 0;
  virtual bool decompress(std::span<const std::byte> in, std::size_t width,
                          std::span<std::byte> target) const = 0;

 private:
  struct Cut {
    explicit Cut(const codecs::Description& what)
        : width(what.layout.extent[2]),
          total(what.layout.elements() * codecs::element_size(what.type)) {
      constexpr std::size_t wanted = std::size_t{1} << 20;
      const std::size_t plane = what.layout.plane_size() * codecs::element_size(what.type);
      bytes = std::max<std::size_t>(1, wanted / plane) * plane;
      pieces = (total + bytes - 1) / bytes;
    }
    std::size_t bytes_of(std::size_t piece) const { return std::min(bytes, total - piece * bytes); }

    std::size_t width;
    std::size_t total;
    std::size_t bytes;
    std::size_t pieces;
  };

  std::size_t slot(const Cut& cut) const {
    // Whole cache lines: zfp writes words, and threads shouldn't share lines.
    return (bound(cut.bytes, cut.width) + 63) / 64 * 64;
  }
};

}  // namespace cinch::bench
