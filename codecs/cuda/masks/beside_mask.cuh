// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/result.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/masks/masks.cuh"
#include "codecs/formats/masks/beside_mask.h"

/// What codecs share that hold one bit an element beside the bytes of an inner codec.
namespace cinch::codecs::cuda {

/// Begins scratch memory; the inner codec's follows.
struct alignas(16) BesideMaskScratch {
  Result inner;  ///< of the inner codec
};

/// Writes the mask of `bytes`, and zeroes the inner codec's result.
template <typename Bits, bool tiled, typename Test>
__device__ __forceinline__ void encode_mask_beside(const TiledMaskJob& job, std::int64_t bytes,
                                                   const void* source, std::byte* out,
                                                   Result* inner, Result* result,
                                                   const Test& test) {
  encode_mask<Bits, tiled>(job, source, out, result, test);
  const std::int64_t at = (job.elements + 7) / 8 + threadIdx.x;
  if (blockIdx.x == 0 && at < bytes) out[at] = std::byte{0};
  if (blockIdx.x == 0 && threadIdx.x == 0) *inner = {};
}

/// Makes the result of the inner codec's and of the mask, which has `before` bytes.
static __global__ void beside_mask_result(std::int64_t before, const Result* inner,
                                          Result* result) {
  if (inner->not_representable != 0) result->not_representable = 1;
  publish(before + static_cast<std::int64_t>(inner->bytes), result);
}

class BesideMaskCuda : public DeviceCodec {
 public:
  explicit BesideMaskCuda(std::shared_ptr<const DeviceCodec> inner) noexcept
      : inner_(std::move(inner)) {}

  bool accepts(const Description& what) const noexcept override {
    return is_float(what.type) && inner_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return sizeof(BesideMaskScratch) + inner_->scratch_bytes(what);
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    const TiledMaskJob job(what, source, true);
    const std::int64_t before = beside_mask_bytes(what.layout);
    auto* const own = static_cast<BesideMaskScratch*>(scratch);
    return write_mask(what.type, job, before, source, out, &own->inner, result, stream) &&
           inner_->encode(what, source, out + before, &own->inner, own + 1, key, stream) &&
           launch(beside_mask_result, 1, 1, 0, stream, before, &own->inner, result);
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* scratch, Stream stream) const noexcept override {
    const TiledMaskJob job(what, target, false);
    const auto before = static_cast<std::size_t>(beside_mask_bytes(what.layout));
    if (in.size() < before) return false;
    const Reads of_inner = reads_of_inner(reads);
    return (of_inner == Reads::nothing ||
            inner_->decode(what, in.subspan(before), target, of_inner, scratch, stream)) &&
           (job.elements == 0 || apply_mask(what.type, job, in.data(), reads, target, stream));
  }

 protected:
  /// At least one block, because it zeroes the inner codec's result.
  static unsigned encode_blocks(const TiledMaskJob& job, Stream stream) {
    return job.elements == 0 ? 1 : job.blocks(stream);
  }

  /// By encode_mask_beside().
  virtual bool write_mask(ElementType type, const TiledMaskJob& job, std::int64_t bytes,
                          const void* source, std::byte* out, Result* inner, Result* result,
                          Stream stream) const noexcept = 0;
  /// What the inner codec decodes first; nothing where the mask says all.
  virtual Reads reads_of_inner(Reads reads) const noexcept = 0;
  /// Changes, or writes, the elements by the mask at `in`. @pre there are some
  virtual bool apply_mask(ElementType type, const TiledMaskJob& job, const std::byte* in,
                          Reads reads, void* target, Stream stream) const noexcept = 0;

 private:
  std::shared_ptr<const DeviceCodec> inner_;
};

}  // namespace cinch::codecs::cuda
