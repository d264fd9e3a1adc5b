// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "codecs/codec.h"

namespace cinch::policy {

/// A tensor's element type as PyTorch has it. Codecs know no complex numbers: to them each is two
/// neighbouring elements, the real and the imaginary part.
struct Dtype {
  codecs::ElementType type = codecs::ElementType::other;  ///< of the parts, if complex
  bool is_complex = false;

  bool operator==(const Dtype&) const = default;
};

/// "float32", "complex64", …, "other".
std::string_view name_of(Dtype dtype) noexcept;

/// The dtype with this name, or nullopt. "other" is not a name that can be looked up.
std::optional<Dtype> dtype_named(std::string_view name) noexcept;

}  // namespace cinch::policy
