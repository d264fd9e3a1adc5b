// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/SequenceNumber.h>

namespace cinch::hooks {

/// The number of the node that autograd is making, in this thread's sequence.
inline std::uint64_t new_nodes_number() {
  return at::sequence_number::peek() - 1;
}

}  // namespace cinch::hooks
