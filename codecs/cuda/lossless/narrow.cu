// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/blocks/ordered.cuh"
#include "codecs/cuda/blocks/result.cuh"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/masks/masks.cuh"
#include "codecs/formats/lossless/narrow.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {
namespace {

/// In scratch memory: the bounds of all elements, and the bits that a distance needs.
struct NarrowBounds {
  long long min, max;
  int bits;
};

/// The value of a bit pattern. Signed, except for uint8, the only unsigned type taken.
template <typename T>
__device__ __forceinline__ std::int64_t integer_of(T pattern) {
  if constexpr (sizeof(T) == 1) return pattern;
  if constexpr (sizeof(T) == 2) return static_cast<std::int16_t>(pattern);
  if constexpr (sizeof(T) == 4) return static_cast<std::int32_t>(pattern);
  return static_cast<std::int64_t>(pattern);
}

static __global__ void narrow_begin(NarrowBounds* bounds) {
  *bounds = {0x7FFFFFFFFFFFFFFF, -0x7FFFFFFFFFFFFFFF - 1, 0};
}

template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    narrow_survey(const MaskJob job, const void* source, NarrowBounds* bounds) {
  const auto* const elements = static_cast<const T*>(source);
  long long min = 0x7FFFFFFFFFFFFFFF;
  long long max = -0x7FFFFFFFFFFFFFFF - 1;
  for_each_run(job.elements, [&](std::int64_t first) {
    const BlockPlace place(job.order, first);
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      const long long value = integer_of(elements[place.offset(i)]);
      min = value < min ? value : min;
      max = value > max ? value : max;
    }
  });
  join_bounds(min, max);
  if (threadIdx.x % kWarp == 0 && min <= max) {
    atomicMin(&bounds->min, min);
    atomicMax(&bounds->max, max);
  }
}

static __global__ void narrow_header(ElementType type, std::int64_t elements, NarrowBounds* bounds,
                                     std::byte* out, Result* result) {
  if (elements == 0) *bounds = {0, 0, 0};
  const auto span =
      static_cast<std::uint64_t>(bounds->max) - static_cast<std::uint64_t>(bounds->min);
  int bits = 0;
  while (bits < 64 && span >> bits != 0) ++bits;
  if (bits > kNarrowMaxBits) {
    result->not_representable = 1;
    bits = 0;
  }
  bounds->bits = bits;
  auto* const words = reinterpret_cast<std::uint32_t*>(out);
  words[0] = kNarrowVersion | static_cast<std::uint32_t>(type) << 8 |
             static_cast<std::uint32_t>(bits) << 16;
  words[1] = 0;
  *reinterpret_cast<long long*>(out + 8) = bounds->min;
  publish(kNarrowHeaderBytes + bytes_for_bits(elements * bits), result);
}

template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    narrow_encode(const MaskJob job, const void* source, const NarrowBounds* bounds,
                  std::byte* codes) {
  const int bits = bounds->bits;
  if (bits == 0) return;
  for_each_stretch(job, [&](const auto& place, std::int64_t first, std::uint32_t i, int count) {
    Patterns<T> x = {};
    load_any(static_cast<const T*>(source), place, i, count, job.vectors, x);
    std::uint32_t distances[kStretch] = {};
#pragma unroll
    for (int j = 0; j < kStretch; ++j) {
      if (j >= count) continue;
      distances[j] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(integer_of(x.of[j])) -
                                                static_cast<std::uint64_t>(bounds->min));
    }
    store_wide_stretch(codes + (first + i) / 8 * bits, distances, bits, count);
  });
}

template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    narrow_decode(const MaskJob job, const std::byte* in, std::int64_t in_size, void* target) {
  const int bits = static_cast<int>(in[2]);
  if (bits > kNarrowMaxBits || kNarrowHeaderBytes + bytes_for_bits(job.elements * bits) > in_size) {
    return;
  }
  const auto min = *reinterpret_cast<const std::uint64_t*>(in + 8);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  for_each_run(job.elements, [&](std::int64_t first) {
    const BlockPlace place(job.order, first);
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      const std::uint64_t distance =
          bits == 0 ? 0 : load_codes(in + kNarrowHeaderBytes, first + i, bits, 1) & mask;
      static_cast<T*>(target)[place.offset(i)] = static_cast<T>(min + distance);
    }
  });
}

class NarrowCuda final : public DeviceCodec {
 public:
  bool accepts(const Description& what) const noexcept override {
    return host_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& /*what*/) const noexcept override {
    return sizeof(NarrowBounds);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey /*key*/, Stream stream) const noexcept override {
    const MaskJob job(what, source);
    auto* const bounds = static_cast<NarrowBounds*>(scratch);
    const unsigned blocks = run_blocks(stream, job.elements);
    const unsigned few = std::min(blocks, 8 * processors_);
    return with_pattern(element_size(what.type), [&]<typename T>(T*) {
      return launch(narrow_begin, 1, 1, 0, stream, bounds) &&
             (blocks == 0 ||
              launch(narrow_survey<T>, few, kRunThreads, 0, stream, job, source, bounds)) &&
             launch(narrow_header, 1, 1, 0, stream, what.type, job.elements, bounds, out, result) &&
             (blocks == 0 || launch(narrow_encode<T>, blocks, kRunThreads, 0, stream, job, source,
                                    bounds, out + kNarrowHeaderBytes));
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const MaskJob job(what, target);
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < kNarrowHeaderBytes) return false;
    if (job.elements == 0) return true;
    return with_pattern(element_size(what.type), [&]<typename T>(T*) {
      return launch(narrow_decode<T>, run_blocks(stream, job.elements), kRunThreads, 0, stream, job,
                    in.data(), size, target);
    });
  }

 private:
  std::shared_ptr<const Codec> host_ = make_narrow_reference();
  unsigned processors_ = device_limits().processors;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_narrow_cuda(const CodecSpec& /*spec*/) {
  return std::make_shared<NarrowCuda>();
}

}  // namespace cinch::codecs::cuda
