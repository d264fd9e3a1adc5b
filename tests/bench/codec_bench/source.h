// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "codecs/codec.h"

namespace cinch::bench {

/// Data to encode, made only when their turn comes. Every byte belongs to an element.
struct Source {
  std::string name;
  codecs::Description what;
  /// Writes the elements in memory order. @pre the span has bytes() of them
  std::function<void(std::span<std::byte>)> fill;

  std::size_t bytes() const {
    return static_cast<std::size_t>(what.layout.elements()) * codecs::element_size(what.type);
  }
};

}  // namespace cinch::bench
