// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/masks/sign.h"

#include <span>

#include "codecs/cpu/masks/kernels.h"
#include "codecs/cpu/masks/sign.h"
#include "codecs/cpu/runs.h"
#include "codecs/element_bits.h"

namespace cinch::codecs {

bool cpu::decode_sign_bits(const Description& what, const std::byte* bits, void* target,
                           ParallelFor parallel) {
  const std::size_t size = element_size(what.type);
  return write_runs(what, target, parallel, [&](std::int64_t begin, std::int64_t count, void* run) {
    select_patterns(size, bits + begin / 8, count, bits_of_one(what.type), 0, run);
  });
}

namespace {

class SignCpu final : public SignCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          return cpu::encode_signs(size, run, count, bits_of_infinity(what.type),
                                   out.data() + begin / 8);
        });
    return {good, good ? encoded_bytes(what) : 0};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    return cpu::decode_sign_bits(what, in.data(), target, parallel);
  }
};

}  // namespace

std::shared_ptr<const Codec> make_sign_cpu() {
  return std::make_shared<SignCpu>();
}

}  // namespace cinch::codecs
