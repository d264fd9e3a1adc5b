// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/masks/beside_mask.cuh"
#include "codecs/element_bits.h"
#include "codecs/formats/masks/with_bounds.h"

namespace cinch::codecs::cuda {
namespace {

template <ElementType type, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    with_bound_encode(const TiledMaskJob job, std::int64_t bytes, BoundPatterns bound,
                      const void* source, std::byte* out, Result* inner, Result* result) {
  using Bits = typename Element<type>::Bits;
  encode_mask_beside<Bits, tiled>(
      job, bytes, source, out, inner, result, [&](Bits bits, bool& /*strange*/) {
        return key_of(type, bits) > bound.key && !is_nan_pattern(type, bits);
      });
}

template <ElementType type, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    with_bound_decode(const TiledMaskJob job, const std::byte* in, BoundPatterns bound,
                      void* target) {
  using Bits = typename Element<type>::Bits;
  restore_by_mask<Bits, tiled, true>(job, in, target, [&](Bits bits, bool above) {
    return static_cast<Bits>(bounded_bits(type, bits, above, bound));
  });
}

class WithBoundCuda final : public BesideMaskCuda {
 public:
  WithBoundCuda(std::shared_ptr<const DeviceCodec> inner, Bound bound) noexcept
      : BesideMaskCuda(std::move(inner)), bound_(bound) {}

  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && BesideMaskCuda::accepts(what);
  }

 protected:
  bool write_mask(ElementType type, const TiledMaskJob& job, std::int64_t bytes, const void* source,
                  std::byte* out, Result* inner, Result* result,
                  Stream stream) const noexcept override {
    return with_element(type, [&](auto known) {
      return with_tiles(job, [&](auto tiled) {
        return launch(with_bound_encode<known.value, tiled.value>, encode_blocks(job, stream),
                      job.threads(), job.shared_bytes, stream, job, bytes,
                      BoundPatterns::of(bound_, type), source, out, inner, result);
      });
    });
  }

  Reads reads_of_inner(Reads reads) const noexcept override {
    return reads == Reads::interval ? Reads::values : reads;
  }

  bool apply_mask(ElementType type, const TiledMaskJob& job, const std::byte* in, Reads reads,
                  void* target, Stream stream) const noexcept override {
    return reads == Reads::sign || with_element(type, [&](auto known) {
             return with_tiles(job, [&](auto tiled) {
               return launch(with_bound_decode<known.value, tiled.value>, job.blocks(stream),
                             job.threads(), 0, stream, job, in, BoundPatterns::of(bound_, type),
                             target);
             });
           });
  }

 private:
  Bound bound_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_with_bound_cuda(std::shared_ptr<const DeviceCodec> inner,
                                                        Bound bound) {
  return std::make_shared<WithBoundCuda>(std::move(inner), bound);
}

}  // namespace cinch::codecs::cuda
