// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <c10/core/Allocator.h>

#include "codecs/codec.h"
#include "hooks/torch/process/buffer_pool.h"
#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {

/// The result of encoding and decoding exact values.
struct RoundTrip {
  c10::DataPtr decoded;
  std::size_t encoded_bytes = 0;
  std::uint64_t encode_nanoseconds = 0;
  std::uint64_t decode_nanoseconds = 0;
};

/// Encodes `bytes` bytes of `exact` by `candidate` and decodes what `reads` needs of them into a
/// buffer of `buffers`.
/// @param sides The entry's, for candidates that take them; null: it has none
/// @return nothing when the codec can't represent the values, or there is no memory
std::optional<RoundTrip> round_trip(const Plan::Candidate& candidate, const void* exact,
                                    std::size_t bytes, codecs::Reads reads, codecs::RandomKey key,
                                    BufferPool& buffers, codecs::ParallelFor parallel_for,
                                    const Sides* sides = nullptr);

}  // namespace cinch::hooks
