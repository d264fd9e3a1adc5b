// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/layout.h"

/// Holds one bit an element, x > 0. The backward of ReLU and leaky ReLU reads nothing else, so
/// their gradients stay exact (ActNN, appendix B.3; DIVISION, appendix G).
///
/// Not representable: a source with a NaN, which PyTorch's !(x <= 0) counts as positive.
/// Bytes: bit k, lowest first, is x > 0 of the element at logical index k; unused bits are 0.
namespace cinch::codecs {

class SignCodec : public Codec {
 public:
  std::string_view name() const noexcept override { return "sign"; }
  Reads restores() const noexcept override { return Reads::sign; }
  bool accepts(const Description& what) const noexcept override {
    return is_float(what.type) && is_valid(what.layout);
  }
  std::size_t encoded_bytes(const Description& what) const noexcept override {
    return static_cast<std::size_t>(bytes_for_bits(what.layout.elements()));
  }

 protected:
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept {
    return reads == Reads::sign && accepts(what) && size >= encoded_bytes(what);
  }
};

std::shared_ptr<const Codec> make_sign_reference();
std::shared_ptr<const Codec> make_sign_cpu();

}  // namespace cinch::codecs
