// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/families.h"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/masks/masks.cuh"
#include "codecs/cuda/result.cuh"
#include "codecs/element_bits.h"
#include "codecs/formats/with_sign.h"

namespace cinch::codecs::cuda {
namespace {

/// Begins scratch memory; the inner codec's follows.
struct alignas(16) WithSignScratch {
  Result inner;  ///< of the inner codec
};

template <ElementType type>
struct PositiveTest {
  bool negatives;  ///< whether there may be some

  template <typename Bits>
  __device__ __forceinline__ bool operator()(Bits bits, bool& strange) const {
    strange |= is_negative_pattern(type, bits) && !negatives;
    return is_positive_pattern(type, bits);
  }
  __device__ __forceinline__ std::uint32_t pair(std::uint32_t patterns,
                                                std::uint32_t& strange) const {
    const SignPair x(patterns, static_cast<std::uint32_t>(bits_of_infinity(type)));
    if (!negatives) strange |= patterns & x.nonzero & ~x.nan;
    return x.positive;
  }
};

/// Writes the signs, and zeroes the inner codec's result.
template <ElementType type, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    with_sign_encode(const TiledMaskJob job, std::int64_t bytes, SignedValues values,
                     const void* source, std::byte* out, Result* inner, Result* result) {
  using Bits = typename Element<type>::Bits;
  const bool negatives = values != SignedValues::non_negative;
  encode_mask<Bits, tiled>(job, source, out, result, PositiveTest<type>{negatives});
  const std::int64_t at = (job.elements + 7) / 8 + threadIdx.x;
  if (blockIdx.x == 0 && at < bytes) out[at] = std::byte{0};
  if (blockIdx.x == 0 && threadIdx.x == 0) *inner = {};
}

/// Makes the result of the inner codec's and of the signs, which are `before` bytes.
static __global__ void with_sign_result(std::int64_t before, const Result* inner, Result* result) {
  if (inner->not_representable != 0) result->not_representable = 1;
  publish(before + static_cast<std::int64_t>(inner->bytes), result);
}

template <ElementType type, SignedValues values>
struct Corrected {
  using Bits = typename Element<type>::Bits;
  __device__ __forceinline__ Bits operator()(Bits bits, bool positive) const {
    return static_cast<Bits>(signed_bits(type, bits, positive, values));
  }
};

/// For Reads::values, corrects what the inner codec wrote. For Reads::sign, writes 1 and 0.
template <ElementType type, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    with_sign_decode(const TiledMaskJob job, const std::byte* in, Reads reads, SignedValues values,
                     void* target) {
  using Bits = typename Element<type>::Bits;
  constexpr Bits kOne = static_cast<Bits>(bits_of_one(type));
  if (reads == Reads::sign) return decode_mask<Bits, tiled>(job, in, kOne, Bits{0}, target);
  if (values == SignedValues::non_negative) {
    restore_by_mask<Bits, tiled, true>(job, in, target,
                                       Corrected<type, SignedValues::non_negative>());
  } else {
    restore_by_mask<Bits, tiled, true>(job, in, target, Corrected<type, SignedValues::agreeing>());
  }
}

class WithSignCuda final : public DeviceCodec {
 public:
  WithSignCuda(std::shared_ptr<const DeviceCodec> inner, SignedValues values) noexcept
      : inner_(std::move(inner)), values_(values) {}

  bool accepts(const Description& what) const noexcept override {
    return is_float(what.type) && inner_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return sizeof(WithSignScratch) + inner_->scratch_bytes(what);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    const TiledMaskJob job(what, source, true);
    const std::int64_t before = with_sign_bytes(what.layout);
    auto* const own = static_cast<WithSignScratch*>(scratch);
    // At least one block, because it zeroes the inner codec's result.
    const unsigned blocks = job.elements == 0 ? 1 : job.blocks(stream);
    return with_any_element(what.type,
                            [&](auto type) {
                              return with_tiles(job, [&](auto tiled) {
                                return launch(with_sign_encode<type.value, tiled.value>, blocks,
                                              job.threads(), job.shared_bytes, stream, job, before,
                                              values_, source, out, &own->inner, result);
                              });
                            }) &&
           inner_->encode(what, source, out + before, &own->inner, own + 1, key, stream) &&
           launch(with_sign_result, 1, 1, 0, stream, before, &own->inner, result);
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* scratch, Stream stream) const noexcept override {
    const TiledMaskJob job(what, target, false);
    const auto before = static_cast<std::size_t>(with_sign_bytes(what.layout));
    if (in.size() < before) return false;
    if (reads == Reads::values &&
        !inner_->decode(what, in.subspan(before), target, reads, scratch, stream)) {
      return false;
    }
    const bool is_done = reads == Reads::values && values_ == SignedValues::any;
    return job.elements == 0 || is_done || with_any_element(what.type, [&](auto type) {
             return with_tiles(job, [&](auto tiled) {
               return launch(with_sign_decode<type.value, tiled.value>, job.blocks(stream),
                             job.threads(), 0, stream, job, in.data(), reads, values_, target);
             });
           });
  }

 private:
  std::shared_ptr<const DeviceCodec> inner_;
  SignedValues values_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_with_sign_cuda(std::shared_ptr<const DeviceCodec> inner,
                                                       SignedValues values) {
  return std::make_shared<WithSignCuda>(std::move(inner), values);
}

}  // namespace cinch::codecs::cuda
