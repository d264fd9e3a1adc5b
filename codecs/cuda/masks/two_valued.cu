// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/masks/masks.cuh"
#include "codecs/formats/masks/two_valued.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {
namespace {

/// In scratch memory: the logical index of the first element that differs from element 0.
using OtherIndex = unsigned long long;

/// Looks into the first run, where a mask nearly always has both values. Runs as one block: when
/// all blocks look at once, most of their threads find the other value, and their atomic operations
/// on the one index wait for each other.
template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    two_valued_begin(const MaskJob job, const void* source, OtherIndex* other) {
  __shared__ std::int32_t found;
  if (threadIdx.x == 0) found = kRunReach;
  __syncthreads();
  const auto* const x = static_cast<const T*>(source);
  const BlockPlace place(job.order, 0);
  const T pattern = x[place.offset(0)];
  for (std::int32_t i = threadIdx.x; i < kRunReach && i < job.elements; i += kRunThreads) {
    if (x[place.offset(static_cast<std::uint32_t>(i))] != pattern) {
      atomicMin(&found, i);
      break;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) *other = static_cast<OtherIndex>(found < kRunReach ? found : job.elements);
}

/// Finds the other index. Runs that begin after the smallest index found so far are skipped: all of
/// them, if the first run has it.
template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    two_valued_find(const MaskJob job, const void* source, OtherIndex* other) {
  const auto* const x = static_cast<const T*>(source);
  const T pattern = x[BlockPlace(job.order, 0).offset(0)];
  for_each_run(job.elements, [&](std::int64_t first) {
    if (static_cast<OtherIndex>(first) > *static_cast<volatile OtherIndex*>(other)) return;
    const BlockPlace place(job.order, first);
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      if (x[place.offset(i)] != pattern) {
        atomicMin(other, static_cast<OtherIndex>(first + i));
        return;
      }
    }
  });
}

template <typename T>
__device__ __forceinline__ void store_pattern(std::byte* at, T pattern) {
  *reinterpret_cast<T*>(at) = pattern;
}

template <typename T, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    two_valued_encode(const TiledMaskJob job, const void* source, const OtherIndex* other,
                      std::byte* out, Result* result) {
  const auto* const x = static_cast<const T*>(source);
  const T first = x[BlockPlace(job.order, 0).offset(0)];
  const auto at = static_cast<std::int64_t>(*other);
  const T second = at < job.elements ? x[BlockPlace(job.order, at).offset(0)] : first;
  encode_mask<T, tiled>(job, source, out + 2 * sizeof(T), result, [&](T bits, bool& strange) {
    strange |= bits != first && bits != second;
    return bits != first;
  });
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    store_pattern(out, first);
    store_pattern(out + sizeof(T), second);
    result->bytes = 2 * sizeof(T) + static_cast<std::uint64_t>(bytes_for_bits(job.elements));
  }
}

template <typename T, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    two_valued_decode(const TiledMaskJob job, const std::byte* in, void* target) {
  const auto* const patterns = reinterpret_cast<const T*>(in);
  decode_mask<T, tiled>(job, in + 2 * sizeof(T), patterns[1], patterns[0], target);
}

/// Encodes an empty tensor: two patterns of 0.
static __global__ void two_valued_empty(std::byte* out, int bytes, Result* result) {
  for (int i = 0; i < bytes; ++i) out[i] = std::byte{0};
  result->bytes = static_cast<std::uint64_t>(bytes);
}

class TwoValuedCuda final : public DeviceCodec {
 public:
  bool accepts(const Description& what) const noexcept override {
    return element_size(what.type) != 0 && is_valid(what.layout) &&
           LogicalOrder::accepts(what.layout) && what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& /*what*/) const noexcept override {
    return sizeof(OtherIndex);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const TiledMaskJob job(what, source, true);
    const std::size_t size = element_size(what.type);
    auto* const other = static_cast<OtherIndex*>(scratch);
    if (job.elements == 0) {
      return launch(two_valued_empty, 1, 1, 0, stream, out, static_cast<int>(2 * size), result);
    }
    return with_pattern(size, [&]<typename T>(T*) {
      const unsigned blocks = run_blocks(stream, job.elements);
      return launch(two_valued_begin<T>, 1, kRunThreads, 0, stream, job, source, other) &&
             launch(two_valued_find<T>, blocks, kRunThreads, 0, stream, job, source, other) &&
             with_tiles(job, [&](auto tiled) {
               return launch(two_valued_encode<T, tiled.value>, job.blocks(stream), job.threads(),
                             job.shared_bytes, stream, job, source, other, out, result);
             });
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const TiledMaskJob job(what, target, false);
    const std::size_t size = element_size(what.type);
    if (in.size() < 2 * size + static_cast<std::size_t>(bytes_for_bits(job.elements))) return false;
    if (job.elements == 0) return true;
    return with_pattern(size, [&]<typename T>(T*) {
      return with_tiles(job, [&](auto tiled) {
        return launch(two_valued_decode<T, tiled.value>, job.blocks(stream), job.threads(), 0,
                      stream, job, in.data(), target);
      });
    });
  }
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_two_valued_cuda(const CodecSpec& /*spec*/) {
  return std::make_shared<TwoValuedCuda>();
}

}  // namespace cinch::codecs::cuda
