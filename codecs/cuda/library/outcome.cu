// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "codecs/cuda/device.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/outcome.h"

namespace cinch::codecs::cuda {
namespace {

/// Bytes that one launch carries: fits into the 4096 bytes of arguments that every device allows.
struct Words {
  unsigned char bytes[3840];
};

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 4096;

__global__ void __launch_bounds__(kThreads)
    outcome_write(const Words from, unsigned bytes, unsigned char* to) {
  for (unsigned i = threadIdx.x; i < bytes; i += kThreads) to[i] = from.bytes[i];
}

__global__ void __launch_bounds__(kThreads)
    outcome_keep_source(const Result* result, std::uint64_t below, const std::byte* source,
                        std::byte* target, std::int64_t bytes) {
  __shared__ bool serves;  // read once by each block: the result may be the host's memory
  if (threadIdx.x == 0) serves = result->not_representable == 0 && result->bytes < below;
  __syncthreads();
  if (serves) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t pieces = bytes / std::int64_t{sizeof(uint4)};
  for (std::int64_t i = first; i < pieces; i += step) {
    reinterpret_cast<uint4*>(target)[i] = reinterpret_cast<const uint4*>(source)[i];
  }
  for (std::int64_t i = pieces * std::int64_t{sizeof(uint4)} + first; i < bytes; i += step) {
    target[i] = source[i];
  }
}

}  // namespace

bool write(void* to, const void* from, std::size_t bytes, Stream stream) noexcept {
  for (std::size_t done = 0; done < bytes; done += sizeof(Words)) {
    Words words;
    const std::size_t now = std::min(bytes - done, sizeof words);
    std::memcpy(words.bytes, static_cast<const unsigned char*>(from) + done, now);
    if (!launch(outcome_write, 1, kThreads, 0, stream, words, static_cast<unsigned>(now),
                static_cast<unsigned char*>(to) + done)) {
      return false;
    }
  }
  return true;
}

bool keep_source(const Result* result, std::uint64_t below, const void* source, void* target,
                 std::size_t bytes, Stream stream) noexcept {
  if (bytes == 0) return true;
  const auto size = static_cast<std::int64_t>(bytes);
  const auto pieces = std::min<std::int64_t>(size / std::int64_t{sizeof(uint4)} + 1,
                                             std::int64_t{kMostBlocks} * kThreads);
  return launch(outcome_keep_source, blocks_in(stream, blocks_for(pieces, kThreads), kThreads),
                kThreads, 0, stream, result, below, static_cast<const std::byte*>(source),
                static_cast<std::byte*>(target), size);
}

}  // namespace cinch::codecs::cuda
