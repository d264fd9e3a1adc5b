// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/layout.h"

/// Lossless codec for storages that hold at most two distinct bit patterns, such as boolean masks
/// and the float noise {0, 1/(1-p)} that dropout saves. Holds one bit an element.
///
/// Not representable: three or more patterns. Encoding stops at the first element that has a third.
/// Bytes: first pattern (that of the element at logical index 0), second pattern (the other one, or
/// the first again), one element's size each, little-endian | bit k, lowest first, is 1 if the
/// element at logical index k has the second pattern; unused bits are 0.
namespace cinch::codecs {

class TwoValuedCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "two_valued"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override {
    return element_size(what.type) != 0 && is_valid(what.layout);
  }
  std::size_t encoded_bytes(const Description& what) const noexcept override {
    return 2 * element_size(what.type) +
           static_cast<std::size_t>(bytes_for_bits(what.layout.elements()));
  }

 protected:
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept {
    return reads != Reads::nothing && accepts(what) && size >= encoded_bytes(what);
  }
};

std::shared_ptr<const Codec> make_two_valued_reference();
std::shared_ptr<const Codec> make_two_valued_cpu();

}  // namespace cinch::codecs
