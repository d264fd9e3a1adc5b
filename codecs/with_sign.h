// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/layout.h"

/// CodecSpec::with_sign for codecs that don't hold signs themselves: 1 bit an element beside the
/// inner codec's bytes, as ActNN keeps ReLU's mask beside the next layer's input.
///
/// For non-negative data such as a ReLU's output: a negative element is not representable. An
/// element whose bit is 0 decodes to +0, unless the inner codec decodes it to NaN because it could
/// not hold the data. For Reads::sign, elements decode to 1 and 0.
///
/// Bytes: bit k, lowest first, is x > 0 of the element at logical index k, then zeros up to a
/// multiple of kWithSignAlignment bytes | the inner codec's bytes.
namespace cinch::codecs {

inline constexpr std::int64_t kWithSignAlignment = 16;

/// Size in bytes of the sign bits, padding included.
inline std::int64_t with_sign_bytes(const PlaneLayout& layout) noexcept {
  const std::int64_t bytes = bytes_for_bits(layout.elements());
  return (bytes + kWithSignAlignment - 1) / kWithSignAlignment * kWithSignAlignment;
}

class WithSignCodec : public Codec {
 public:
  explicit WithSignCodec(std::shared_ptr<const Codec> inner) noexcept : inner_(std::move(inner)) {}

  std::string_view name() const noexcept override { return inner_->name(); }
  Reads restores() const noexcept override { return Reads::values; }
  bool exact() const noexcept override { return inner_->exact(); }
  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && inner_->accepts(what);
  }
  std::size_t encoded_bytes(const Description& what) const noexcept override {
    return static_cast<std::size_t>(with_sign_bytes(what.layout)) + inner_->encoded_bytes(what);
  }

 protected:
  const Codec& inner() const noexcept { return *inner_; }
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept {
    return (reads == Reads::sign || reads == Reads::values) && accepts(what) &&
           size >= static_cast<std::size_t>(with_sign_bytes(what.layout));
  }

 private:
  std::shared_ptr<const Codec> inner_;
};

/// @pre inner restores values
std::shared_ptr<const Codec> make_with_sign_reference(std::shared_ptr<const Codec> inner);
std::shared_ptr<const Codec> make_with_sign_cpu(std::shared_ptr<const Codec> inner);

}  // namespace cinch::codecs
