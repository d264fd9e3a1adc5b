// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/launch_shape.h"
#include "codecs/cuda/library/families.h"
#include "codecs/cuda/two_sided/decode.cuh"
#include "codecs/cuda/two_sided/encode.cuh"
#include "codecs/formats/two_sided.h"

namespace cinch::codecs::cuda {
namespace {

class TwoSidedCuda final : public DeviceCodec {
 public:
  explicit TwoSidedCuda(const TwoSidedParameters& parameters)
      : parameters_(parameters),
        host_(make_two_sided_reference(parameters)),
        device_(device_limits()) {}

  bool accepts(const Description& what) const noexcept override {
    // As of group_quant.
    return host_->accepts(what) && LogicalOrder::accepts(what.layout) &&
           what.layout.plane_size() <= kMaxExtent / 2 && parameters_.group <= kMaxExtent / 2 &&
           what.layout.elements() / kStretch + what.layout.planes() <= kMaxBlocks * kWarp;
  }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* /*scratch*/, RandomKey key, Stream stream) const noexcept override {
    if (what.layout.planes() == 0) return true;
    const SidedJob job(parameters_, what, source, key);
    const std::int64_t groups = job.groups.planes * job.groups.groups;
    return with_element(what.type, [&](auto type) {
      return launch(two_sided_encode<type.value>, blocks(stream, groups, kGroupThreads / kWarp),
                    kGroupThreads, 0, stream, job, source, out, result);
    });
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* /*scratch*/, Stream stream) const noexcept override {
    if (what.layout.planes() == 0) return true;
    SidedJob job(parameters_, {.type = what.type, .layout = what.layout}, target, {});
    // Without scales. With them it takes more, which the kernel knows.
    const auto size = static_cast<std::int64_t>(in.size());
    if (size < job.end) return false;
    job.end = size;
    return with_element(what.type, [&](auto type) {
      const auto run = [&](auto kernel) {
        return launch(kernel, blocks(stream, job.groups.all_slots, kGroupThreads), kGroupThreads, 0,
                      stream, job, in.data(), target);
      };
      if (reads == Reads::sign) return run(two_sided_decode<type.value, SidedRead::sides>);
      if (parameters_.subtractive) return run(two_sided_decode<type.value, SidedRead::dithered>);
      return run(two_sided_decode<type.value, SidedRead::values>);
    });
  }

 private:
  /// Blocks of threads that take `items`, some at a time: so many that each has several turns.
  unsigned blocks(Stream stream, std::int64_t items, std::int64_t at_a_time) const noexcept {
    const std::int64_t wanted = (items + at_a_time - 1) / at_a_time;
    return blocks_in(stream, std::min<std::int64_t>(wanted, kTurnsOf * device_.processors),
                     kGroupThreads);
  }

  static constexpr std::int64_t kTurnsOf = 16;  ///< blocks of a multiprocessor: two rounds of them

  TwoSidedParameters parameters_;
  std::shared_ptr<const Codec> host_;
  DeviceLimits device_;
};

}  // namespace

std::shared_ptr<const DeviceCodec> make_two_sided_cuda(const CodecSpec& spec) {
  return std::make_shared<TwoSidedCuda>(TwoSidedParameters{
      .bits = spec.bits, .group = spec.group, .subtractive = spec.subtractive_dither});
}

}  // namespace cinch::codecs::cuda
