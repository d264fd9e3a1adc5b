// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "codecs/codec.h"
#include "codecs/layout.h"

/// What with_sign.h and with_bounds.h share: one bit an element, then zeros up to a multiple of
/// kBesideMaskAlignment bytes, and behind these an inner codec's bytes.
namespace cinch::codecs {

inline constexpr std::int64_t kBesideMaskAlignment = 16;

/// Size in bytes of the mask, padding included.
inline std::int64_t beside_mask_bytes(const PlaneLayout& layout) noexcept {
  const std::int64_t bytes = bytes_for_bits(layout.elements());
  return (bytes + kBesideMaskAlignment - 1) / kBesideMaskAlignment * kBesideMaskAlignment;
}

class BesideMaskCodec : public Codec {
 public:
  /// @pre inner restores values
  explicit BesideMaskCodec(std::shared_ptr<const Codec> inner) noexcept
      : inner_(std::move(inner)) {}

  std::string_view name() const noexcept override { return inner_->name(); }
  Reads restores() const noexcept override { return Reads::values; }
  std::size_t encoded_bytes(const Description& what) const noexcept override {
    return static_cast<std::size_t>(beside_mask_bytes(what.layout)) + inner_->encoded_bytes(what);
  }

 protected:
  const Codec& inner() const noexcept { return *inner_; }

 private:
  std::shared_ptr<const Codec> inner_;
};

}  // namespace cinch::codecs
