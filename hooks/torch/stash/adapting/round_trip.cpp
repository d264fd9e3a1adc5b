// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/round_trip.h"

#include <utility>
#include <vector>

#include "hooks/torch/stash/entry/entry_work.h"
#include "policy/adapting/plane_ranges.h"

namespace cinch::hooks {

std::optional<RoundTrip> round_trip(const Plan::Candidate& candidate, const void* exact,
                                    std::size_t bytes, codecs::Reads reads, codecs::RandomKey key,
                                    BufferPool& buffers, codecs::ParallelFor parallel_for,
                                    const Sides* sides) {
  auto described = with_sides(candidate, candidate.what, sides);
  if (!described) return std::nullopt;
  codecs::Description& what = *described;
  const std::size_t bound =
      candidate.by_sides ? candidate.codec->encoded_bytes(what) : candidate.bound;
  const c10::DataPtr encoded = buffers.take(bound);
  RoundTrip result;
  result.decoded = buffers.take(bytes);
  if ((bound != 0 && encoded.get() == nullptr) || result.decoded.get() == nullptr) {
    return std::nullopt;
  }
  std::vector<std::uint8_t> bits;
  const Stopwatch encoding;
  if (candidate.mixed_bits > 0) {
    bits = policy::plane_bits(policy::plane_ranges(what, exact, candidate.group),
                              candidate.mixed_bits);
    what.plane_bits = bits;
  }
  const codecs::Encoded size = candidate.codec->encode(
      what, exact, {static_cast<std::byte*>(encoded.get()), bound}, key, parallel_for);
  result.encode_nanoseconds = encoding.nanoseconds();
  if (!size.representable) return std::nullopt;
  result.encoded_bytes = size.bytes;
  const Stopwatch decoding;
  if (!candidate.codec->decode(what, {static_cast<const std::byte*>(encoded.get()), size.bytes},
                               result.decoded.get(), reads, parallel_for)) {
    return std::nullopt;
  }
  result.decode_nanoseconds = decoding.nanoseconds();
  return result;
}

}  // namespace cinch::hooks
