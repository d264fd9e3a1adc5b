// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "codecs/codec.h"
#include "tests/bench/codec_bench/errors.h"

namespace cinch::bench {

/// What is timed: one of Cinch's codecs, or an opponent behind the same interface.
class Subject {
 public:
  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;

  virtual bool accepts(const codecs::Description& what) const = 0;
  /// Bytes that `encode` needs to have room for.
  virtual std::size_t capacity(const codecs::Description& what) const = 0;
  /// The size of the encoded data, which may lie in `out` with gaps; nothing on failure.
  /// @param round number of the call, for random draws
  virtual std::optional<std::size_t> encode(const codecs::Description& what,
                                            std::span<const std::byte> source,
                                            std::span<std::byte> out, std::uint64_t round,
                                            codecs::ParallelFor parallel) const = 0;
  /// @param in the whole `out` that `encode` was given
  virtual bool decode(const codecs::Description& what, std::span<const std::byte> in,
                      std::span<std::byte> target, codecs::ParallelFor parallel) const = 0;
  /// What of the data is restored and can be compared.
  virtual Restored restored() const { return {}; }
};

/// Null when make_codec has no such codec.
std::unique_ptr<Subject> make_cinch(const codecs::CodecSpec& spec);

}  // namespace cinch::bench
