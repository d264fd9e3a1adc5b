// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/raw.h"

#include <cstring>
#include <span>

#include "codecs/cpu/runs.h"

namespace cinch::codecs {
namespace {

class RawCpu final : public RawCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const auto size = static_cast<std::int64_t>(element_size_or_byte(what.type));
    const bool done = cpu::read_runs(what, source, parallel,
                                     [&](std::int64_t begin, std::int64_t count, const void* run) {
                                       std::memcpy(out.data() + begin * size, run, count * size);
                                       return true;
                                     });
    return {done, encoded_bytes(what)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const auto size = static_cast<std::int64_t>(element_size_or_byte(what.type));
    return cpu::write_runs(what, target, parallel,
                           [&](std::int64_t begin, std::int64_t count, void* run) {
                             std::memcpy(run, in.data() + begin * size, count * size);
                           });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_raw_cpu() {
  return std::make_shared<RawCpu>();
}

}  // namespace cinch::codecs
