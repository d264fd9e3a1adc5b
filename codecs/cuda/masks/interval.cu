// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/masks/masks.cuh"
#include "codecs/element_bits.h"
#include "codecs/formats/masks/interval.h"

namespace cinch::codecs::cuda {
namespace {

template <ElementType type, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    interval_encode(const TiledMaskJob job, IntervalBounds bounds, const void* source,
                    std::byte* out, Result* result) {
  using Bits = typename Element<type>::Bits;
  encode_mask<Bits, tiled>(job, source, out, result, [&](Bits bits, bool& strange) {
    const float x = value_of<type>(bits);
    strange |= x != x;
    return is_inside(x, bounds);
  });
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    result->bytes = static_cast<std::uint64_t>(bytes_for_bits(job.elements));
  }
}

template <typename T, bool tiled>
__global__ void __launch_bounds__(kRunThreads)
    interval_decode(const TiledMaskJob job, const std::byte* in, T inside, T outside,
                    void* target) {
  decode_mask<T, tiled>(job, in, inside, outside, target);
}

class IntervalCuda final : public DeviceCodec {
 public:
  explicit IntervalCuda(IntervalBounds bounds) noexcept : bounds_(bounds) {}

  bool accepts(const Description& what) const noexcept override {
    return is_quantizable(what.type) && is_valid(what.layout) &&
           IntervalPatterns::of(bounds_, what.type) && LogicalOrder::accepts(what.layout) &&
           what.layout.elements() <= kRunReach * kMaxBlocks;
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* /*scratch*/, RandomKey /*key*/, Stream stream) const noexcept override {
    const TiledMaskJob job(what, source, true);
    if (job.elements == 0) return true;
    return with_element(what.type, [&](auto type) {
      return with_tiles(job, [&](auto tiled) {
        return launch(interval_encode<type.value, tiled.value>, job.blocks(stream), job.threads(),
                      job.shared_bytes, stream, job, bounds_, source, out, result);
      });
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads /*reads*/,
              void* /*scratch*/, Stream stream) const noexcept override {
    const TiledMaskJob job(what, target, false);
    const auto patterns = IntervalPatterns::of(bounds_, what.type);
    if (!patterns || static_cast<std::int64_t>(in.size()) < bytes_for_bits(job.elements)) {
      return false;
    }
    if (job.elements == 0) return true;
    return with_pattern(element_size(what.type), [&]<typename T>(T*) {
      return with_tiles(job, [&](auto tiled) {
        return launch(interval_decode<T, tiled.value>, job.blocks(stream), job.threads(), 0, stream,
                      job, in.data(), static_cast<T>(patterns->inside),
                      static_cast<T>(patterns->outside), target);
      });
    });
  }

 private:
  IntervalBounds bounds_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_interval_cuda(const CodecSpec& spec) {
  return std::make_shared<IntervalCuda>(interval_of(spec));
}

}  // namespace cinch::codecs::cuda
