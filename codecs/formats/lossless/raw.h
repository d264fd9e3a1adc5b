// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/layout.h"

/// Copies the elements that the layout reaches, in logical order. Takes every type; a layout of
/// `ElementType::other` counts bytes.
namespace cinch::codecs {

class RawCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "raw"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override { return is_valid(what.layout); }
  std::size_t encoded_bytes(const Description& what) const noexcept override {
    return static_cast<std::size_t>(what.layout.elements()) * element_size_or_byte(what.type);
  }

 protected:
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept {
    return reads != Reads::nothing && accepts(what) && size >= encoded_bytes(what);
  }
};

std::shared_ptr<const Codec> make_raw_reference();
std::shared_ptr<const Codec> make_raw_cpu();

}  // namespace cinch::codecs
