// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/masks/masks.cuh"
#include "codecs/formats/lossless/raw.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    raw_encode(const MaskJob job, const void* source, std::byte* out, Result* result) {
  for_each_run(job.elements, [&](std::int64_t first) {
    const BlockPlace place(job.order, first);
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      reinterpret_cast<T*>(out)[first + i] = static_cast<const T*>(source)[place.offset(i)];
    }
  });
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(job.elements) * sizeof(T);
  }
}

template <typename T>
__global__ void __launch_bounds__(kRunThreads)
    raw_decode(const MaskJob job, const std::byte* in, void* target) {
  for_each_run(job.elements, [&](std::int64_t first) {
    const BlockPlace place(job.order, first);
    for (std::uint32_t i = threadIdx.x; i < kRunReach && first + i < job.elements;
         i += kRunThreads) {
      static_cast<T*>(target)[place.offset(i)] = reinterpret_cast<const T*>(in)[first + i];
    }
  });
}

class RawCuda final : public DeviceCodec {
 public:
  bool accepts(const Description& what) const noexcept override {
    return is_valid(what.layout) && LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* /*scratch*/, RandomKey /*key*/, Stream stream) const noexcept override {
    const MaskJob job(what, source);
    if (job.elements == 0) return true;
    return with_pattern(element_size_or_byte(what.type), [&]<typename T>(T*) {
      return launch(raw_encode<T>, run_blocks(stream, job.elements), kRunThreads, 0, stream, job,
                    source, out, result);
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const MaskJob job(what, target);
    const std::size_t size = element_size_or_byte(what.type);
    if (in.size() < static_cast<std::size_t>(job.elements) * size) return false;
    if (job.elements == 0) return true;
    return with_pattern(size, [&]<typename T>(T*) {
      return launch(raw_decode<T>, run_blocks(stream, job.elements), kRunThreads, 0, stream, job,
                    in.data(), target);
    });
  }
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_raw_cuda(const CodecSpec& /*spec*/) {
  return std::make_shared<RawCuda>();
}

}  // namespace cinch::codecs::cuda
