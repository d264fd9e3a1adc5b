// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/holding/holding.h"

namespace cinch::hooks {

/// Chooses the Holding for an entry. No other code asks in which memory an entry lies.
struct Holdings {
  Holding& host;
  Holding& device;  ///< CUDA

  Holding& of(const c10::Device& where) const noexcept {
    return where.type() == c10::kCUDA ? device : host;
  }
  Holding& of(const Entry& entry) const noexcept { return entry.device == nullptr ? host : device; }
  /// @param index A CUDA device's, or Holding::host
  Holding& of_device(int index) const noexcept { return index == Holding::host ? host : device; }
};

}  // namespace cinch::hooks
