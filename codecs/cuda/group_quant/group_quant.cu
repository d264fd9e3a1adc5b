// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/group_quant/any.cuh"
#include "codecs/cuda/group_quant/columns.cuh"
#include "codecs/cuda/group_quant/mixed.cuh"
#include "codecs/cuda/group_quant/pixels.cuh"
#include "codecs/cuda/group_quant/tiles.cuh"
#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/formats/group_quant.h"

namespace cinch::codecs::cuda {
namespace {

class GroupQuantCuda final : public DeviceCodec {
 public:
  explicit GroupQuantCuda(const GroupQuantParameters& parameters)
      : parameters_(parameters),
        host_(make_group_quant_reference(parameters)),
        device_(device_limits()) {}

  bool accepts(const Description& what) const noexcept override {
    // A block's slots may reach over several planes, and 32 bits count them and their elements.
    return host_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           what.layout.plane_size() <= kMaxExtent / 2 && parameters_.group <= kMaxExtent / 2 &&
           what.layout.elements() / kStretch + what.layout.planes() <= kMaxBlocks * kWarp;
  }

  std::size_t scratch_bytes(const Description& what) const noexcept override {
    return what.plane_bits.empty() ? 0 : sizeof(std::int64_t) * what.plane_bits.size();
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    const GroupJob job(parameters_, what, source, key);
    if (job.planes == 0) return true;
    auto* const offsets = static_cast<std::int64_t*>(scratch);
    if (job.mixed && !(store_bits(what.plane_bits, job.ranges_at - job.plane_bits_at,
                                  out + job.plane_bits_at, stream) &&
                       launch(group_offsets, 1, kGroupThreads, 0, stream, job, out, offsets))) {
      return false;
    }
    if (what.type != ElementType::float64 && job.fits_warp()) {
      if (job.vectors) {
        return with_element(what.type, [&](auto type) {
          return with_kernel(job, [&](auto bits, auto shift, auto of) {
            return launch(group_quant_encode<type.value, bits.value, shift.value, of.value>,
                          warps_blocks(job, 2 * kGroupEncodeBlocks<type.value, bits.value>, stream),
                          kGroupThreads, 0, stream, job, offsets, source, out, result);
          });
        });
      }
      const SamplesLast samples = samples_of(what, source);
      const GroupColumns columns(job, samples, element_size(what.type));
      if (columns.count > 0) {
        return with_element(what.type, [&](auto type) {
          return with_bits(job.usual_bits(), [&](auto bits) {
            if constexpr (bits.value == 0) {
              return false;  // there are no columns
            } else {
              return in_waves(stream, columns.count, columns.threads,
                              [&](auto first, unsigned blocks) {
                                return launch(group_quant_encode_columns<type.value, bits.value>,
                                              blocks, columns.threads, 0, stream, job, columns,
                                              first, source, out, result);
                              });
            }
          });
        });
      }
      const GroupTiles tiles = tiles_of(job, samples, what.type);
      if (tiles.width > 0) {
        return with_element(what.type, [&](auto type) {
          return with_bits(job.usual_bits(), [&](auto bits) {
            return in_waves(stream, tiles.count, tiles.threads, [&](auto first, unsigned blocks) {
              return launch(group_quant_encode_tiles<type.value, bits.value>, blocks, tiles.threads,
                            tiles.shared_bytes, stream, job, tiles, first, offsets, source, out,
                            result);
            });
          });
        });
      }
    }
    return with_any_element(what.type, [&](auto type) {
      return launch(job.codes_of == CodesOf::above_zero
                        ? group_quant_encode_any<type.value, CodesOf::above_zero>
                        : group_quant_encode_any<type.value, CodesOf::elements>,
                    blocks_in(stream, blocks_for(job.planes * job.groups, kGroupThreads / kWarp),
                              kGroupThreads),
                    kGroupThreads, 0, stream, job, offsets, source, out, result);
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* scratch, Stream stream) const noexcept override {
    GroupJob job(parameters_, what, target, {});
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < (job.mixed ? job.codes_at : job.end)) return false;
    if (job.planes == 0) return true;
    job.end = size;
    job.signs = reads == Reads::sign;
    const bool dithered = job.subtractive && !job.signs;
    auto* const offsets = static_cast<std::int64_t*>(scratch);
    if (job.mixed && !launch(group_offsets, 1, kGroupThreads, 0, stream, job, in.data(), offsets)) {
      return false;
    }
    const auto launch_with = [&](auto kernel, unsigned blocks) {
      return launch(kernel, blocks, kGroupThreads, 0, stream, job, offsets, in.data(), target);
    };
    if (what.type != ElementType::float64 && job.fits_warp()) {
      if (job.vectors) {
        return with_element(what.type, [&](auto type) {
          return with_kernel(job, [&](auto bits, auto shift, auto of) {
            constexpr CodesOf kOf = of.value;
            constexpr bool kAlways = kOf == CodesOf::roots;  // dithered: no other kernel is made
            return launch_with(
                dithered ? group_quant_decode<type.value, true, bits.value, shift.value, kOf>
                         : group_quant_decode<type.value, kAlways, bits.value, shift.value, kOf>,
                warps_blocks(job, kGroupDecodeBlocks<type.value, bits.value>, stream));
          });
        });
      }
      const SamplesLast samples = samples_of(what, target);
      const GroupPixels pixels(job, samples, element_size(what.type));
      if (pixels.pieces > 0) {
        return with_element(what.type, [&](auto type) {
          return with_bits(job.usual_bits(), [&](auto bits) {
            return launch(job.subtractive
                              ? group_quant_decode_pixels<type.value, true, bits.value>
                              : group_quant_decode_pixels<type.value, false, bits.value>,
                          pixels_blocks(pixels, stream), kPixelThreads, 0, stream, job, pixels,
                          offsets, in.data(), target);
          });
        });
      }
      const GroupTiles tiles = tiles_of(job, samples, what.type);
      if (tiles.width > 0) {
        return with_element(what.type, [&](auto type) {
          return with_bits(job.usual_bits(), [&](auto bits) {
            return launch(job.subtractive ? group_quant_decode_tiles<type.value, true, bits.value>
                                          : group_quant_decode_tiles<type.value, false, bits.value>,
                          blocks_in(stream, tiles.count, tiles.threads), tiles.threads,
                          tiles.shared_bytes, stream, job, tiles, offsets, in.data(), target);
          });
        });
      }
    }
    return with_any_element(what.type, [&](auto type) {
      constexpr auto kAboveZero = CodesOf::above_zero;
      const bool above_zero = job.codes_of == kAboveZero;
      return launch_with(
          job.codes_of == CodesOf::roots ? group_quant_decode_any<type.value, true, CodesOf::roots>
          : above_zero && dithered       ? group_quant_decode_any<type.value, true, kAboveZero>
          : above_zero                   ? group_quant_decode_any<type.value, false, kAboveZero>
          : dithered                     ? group_quant_decode_any<type.value, true>
                                         : group_quant_decode_any<type.value, false>,
          blocks_in(stream, blocks_for(job.all_slots, kGroupThreads), kGroupThreads));
    });
  }

 private:
  /// Those whose groups have kernels; of roots and zero codes there are none.
  SamplesLast samples_of(const Description& what, const void* elements) const noexcept {
    SamplesLast samples(what.layout, elements, element_size(what.type));
    samples.vectors &= !parameters_.roots && !parameters_.zero_code;
    return samples;
  }

  GroupTiles tiles_of(const GroupJob& job, const SamplesLast& samples,
                      ElementType type) const noexcept {
    return {job, samples, element_size(type), device_.shared_bytes};
  }

  /// Blocks of threads that take all pieces, a few each.
  unsigned pixels_blocks(const GroupPixels& pixels, Stream stream) const noexcept {
    const std::int64_t wanted = blocks_for(pixels.pieces, kPixelThreads);
    return blocks_in(stream, std::min<std::int64_t>(wanted, 4 * kPixelBlocks * device_.processors),
                     kPixelThreads);
  }

  /// Calls f with `bits` as a std::integral_constant. @param bits GroupJob::usual_bits, or 0
  template <typename F>
  static bool with_bits(int bits, const F& f) noexcept {
    if (bits == 2) return f(std::integral_constant<int, 2>());
    if (bits == 3) return f(std::integral_constant<int, 3>());
    if (bits == 4) return f(std::integral_constant<int, 4>());
    return f(std::integral_constant<int, 0>());
  }

  /// Calls f with the bits, and the GroupLanes' shift, for which contiguous planes have code of
  /// their own, and what codes are of, as std::integral_constants; zeros stand for all other bits
  /// and shifts.
  template <typename F>
  static bool with_kernel(const GroupJob& job, const F& f) noexcept {
    constexpr std::integral_constant<unsigned, kUsualShift> usual;
    constexpr std::integral_constant<int, 0> any_bits;
    constexpr std::integral_constant<unsigned, 0> any_shift;
    constexpr std::integral_constant<CodesOf, CodesOf::elements> elements;
    const auto with_three = [&](auto of) {
      constexpr std::integral_constant<int, 3> three;  // the preset default's
      if (job.linear && job.usual_bits() == 3) return f(three, usual, of);
      return f(any_bits, any_shift, of);
    };
    if (job.codes_of == CodesOf::roots) {
      return with_three(std::integral_constant<CodesOf, CodesOf::roots>());
    }
    if (job.codes_of == CodesOf::above_zero) {
      return with_three(std::integral_constant<CodesOf, CodesOf::above_zero>());
    }
    if (job.linear && job.usual_bits() != 0) {
      return with_bits(job.usual_bits(), [&](auto bits) {
        return f(bits, std::integral_constant<unsigned, usual_shift(bits.value)>(), elements);
      });
    }
    // The preset default's inputs of norms.
    if (job.linear && job.bits == 4 && job.half_shift == 2) {
      return f(std::integral_constant<int, 4>(), std::integral_constant<unsigned, 2>(), elements);
    }
    return f(any_bits, any_shift, elements);
  }

  /// Blocks of threads whose warps take all stretches, piece by piece.
  /// @param most for each multiprocessor
  unsigned warps_blocks(const GroupJob& job, unsigned most, Stream stream) const noexcept {
    const std::int64_t wanted = (job.all_slots + 2 * kGroupThreads - 1) / (2 * kGroupThreads);
    return blocks_in(stream, std::min<std::int64_t>(wanted, most * device_.processors),
                     kGroupThreads);
  }

  /// Writes the section of plane bits, `bytes` with its padding. The bits go as kernel arguments.
  static bool store_bits(std::span<const std::uint8_t> plane_bits, std::int64_t bytes,
                         std::byte* out, Stream stream) noexcept {
    for (std::int64_t at = 0; at < bytes; at += PlaneBits::kCount) {
      PlaneBits some = {};
      const std::int64_t count = std::min<std::int64_t>(PlaneBits::kCount, bytes - at);
      const auto known = static_cast<std::int64_t>(plane_bits.size()) - at;
      std::copy_n(plane_bits.begin() + std::min<std::int64_t>(at, plane_bits.size()),
                  std::clamp<std::int64_t>(known, 0, count), some.bits);
      if (!launch(group_store_bits, 1, kGroupThreads, 0, stream, some, static_cast<int>(count),
                  out + at)) {
        return false;
      }
    }
    return true;
  }

  GroupQuantParameters parameters_;
  std::shared_ptr<const Codec> host_;
  DeviceLimits device_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_group_quant_cuda(const CodecSpec& spec) {
  return std::make_shared<GroupQuantCuda>(group_quant_of(spec));
}

}  // namespace cinch::codecs::cuda
