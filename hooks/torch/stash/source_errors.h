// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

struct Entry;

/// How the decoded values of a recipe's source err: evenly, by up to half a step
/// (codecs::EvenErrors).
struct SourceErrors {
  at::Tensor steps;        ///< of each group, float32; undefined: the values err otherwise
  std::int64_t group = 1;  ///< elements
  std::int64_t plane = 1;

  /// Those of an entry, copied in the current stream. @param encoded Its bytes, usable there; null:
  /// they are not at hand @pre entry.mutex() is held
  static SourceErrors of(const Entry& entry, const void* encoded);
};

}  // namespace cinch::hooks
