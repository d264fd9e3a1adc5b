// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/masks/masks.cuh"
#include "codecs/element_bits.h"
#include "codecs/formats/masks/sign.h"

namespace cinch::codecs::cuda {
namespace {

template <typename T>
struct SignTest {
  T infinity;

  __device__ __forceinline__ bool operator()(T bits, bool& strange) const {
    constexpr T kSign = T{1} << (8 * sizeof(T) - 1);
    strange |= static_cast<T>(bits & ~kSign) > infinity;
    return bits != 0 && bits < kSign;
  }
  __device__ __forceinline__ std::uint32_t pair(std::uint32_t patterns,
                                                std::uint32_t& strange) const {
    const SignPair x(patterns, infinity);
    strange |= x.nan;
    return x.positive;
  }
};

template <typename T, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    sign_encode(const TiledMaskJob job, T infinity, const void* source, std::byte* out,
                Result* result) {
  encode_mask<T, tiled>(job, source, out, result, SignTest<T>{infinity});
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(bytes_for_bits(job.elements));
  }
}

template <typename T, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    sign_decode(const TiledMaskJob job, const std::byte* in, T one, void* target) {
  decode_mask<T, tiled>(job, in, one, T{0}, target);
}

class SignCuda final : public DeviceCodec {
 public:
  bool accepts(const Description& what) const noexcept override {
    return is_float(what.type) && is_valid(what.layout) && LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* /*scratch*/, RandomKey /*key*/, Stream stream) const noexcept override {
    const TiledMaskJob job(what, source, true);
    if (job.elements == 0) return true;
    return with_pattern(element_size(what.type), [&]<typename T>(T*) {
      return with_tiles(job, [&](auto tiled) {
        return launch(sign_encode<T, tiled.value>, job.blocks(stream), job.threads(),
                      job.shared_bytes, stream, job, static_cast<T>(bits_of_infinity(what.type)),
                      source, out, result);
      });
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const TiledMaskJob job(what, target, false);
    if (static_cast<std::int64_t>(in.size()) < bytes_for_bits(job.elements)) return false;
    if (job.elements == 0) return true;
    return with_pattern(element_size(what.type), [&]<typename T>(T*) {
      return with_tiles(job, [&](auto tiled) {
        return launch(sign_decode<T, tiled.value>, job.blocks(stream), job.threads(), 0, stream,
                      job, in.data(), static_cast<T>(bits_of_one(what.type)), target);
      });
    });
  }
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_sign_cuda(const CodecSpec& /*spec*/) {
  return std::make_shared<SignCuda>();
}

}  // namespace cinch::codecs::cuda
