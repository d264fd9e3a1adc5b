// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/masks/beside_mask.cuh"
#include "codecs/element_bits.h"
#include "codecs/formats/masks/with_sign.h"

namespace cinch::codecs::cuda {
namespace {

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

template <ElementType type, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    with_sign_encode(const TiledMaskJob job, std::int64_t bytes, SignedValues values,
                     const void* source, std::byte* out, Result* inner, Result* result) {
  using Bits = typename Element<type>::Bits;
  const bool negatives = values != SignedValues::non_negative;
  encode_mask_beside<Bits, tiled>(job, bytes, source, out, inner, result,
                                  PositiveTest<type>{negatives});
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

class WithSignCuda final : public BesideMaskCuda {
 public:
  WithSignCuda(std::shared_ptr<const DeviceCodec> inner, SignedValues values) noexcept
      : BesideMaskCuda(std::move(inner)), values_(values) {}

 protected:
  bool write_mask(ElementType type, const TiledMaskJob& job, std::int64_t bytes, const void* source,
                  std::byte* out, Result* inner, Result* result,
                  Stream stream) const noexcept override {
    return with_any_element(type, [&](auto known) {
      return with_tiles(job, [&](auto tiled) {
        return launch(with_sign_encode<known.value, tiled.value>, encode_blocks(job, stream),
                      job.threads(), job.shared_bytes, stream, job, bytes, values_, source, out,
                      inner, result);
      });
    });
  }

  Reads reads_of_inner(Reads reads) const noexcept override {
    return reads == Reads::values ? reads : Reads::nothing;
  }

  bool apply_mask(ElementType type, const TiledMaskJob& job, const std::byte* in, Reads reads,
                  void* target, Stream stream) const noexcept override {
    const bool is_done = reads == Reads::values && values_ == SignedValues::any;
    return is_done || with_any_element(type, [&](auto known) {
             return with_tiles(job, [&](auto tiled) {
               return launch(with_sign_decode<known.value, tiled.value>, job.blocks(stream),
                             job.threads(), 0, stream, job, in, reads, values_, target);
             });
           });
  }

 private:
  SignedValues values_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_with_sign_cuda(std::shared_ptr<const DeviceCodec> inner,
                                                       SignedValues values) {
  return std::make_shared<WithSignCuda>(std::move(inner), values);
}

}  // namespace cinch::codecs::cuda
