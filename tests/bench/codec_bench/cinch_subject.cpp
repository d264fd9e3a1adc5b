// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/bench/codec_bench/subject.h"

namespace cinch::bench {
namespace {

using codecs::Description;

class CinchSubject : public Subject {
 public:
  CinchSubject(codecs::CodecSpec spec, std::shared_ptr<const codecs::Codec> codec)
      : spec_(std::move(spec)), codec_(std::move(codec)) {}

  bool accepts(const Description& what) const override { return codec_->accepts(what); }
  std::size_t capacity(const Description& what) const override {
    return codec_->encoded_bytes(what);
  }

  std::optional<std::size_t> encode(const Description& what, std::span<const std::byte> source,
                                    std::span<std::byte> out, std::uint64_t round,
                                    codecs::ParallelFor parallel) const override {
    const codecs::Encoded encoded =
        codec_->encode(what, source.data(), out, {.seed = 1, .step = round}, parallel);
    if (!encoded.representable) return std::nullopt;
    return encoded.bytes;
  }

  bool decode(const Description& what, std::span<const std::byte> in, std::span<std::byte> target,
              codecs::ParallelFor parallel) const override {
    return codec_->decode(what, in, target.data(), codec_->restores(), parallel);
  }

  Restored restored() const override {
    if (spec_.name == "interval") return {Restored::interval, spec_.lower, spec_.upper};
    return {codec_->restores() == codecs::Reads::sign ? Restored::sign : Restored::values};
  }

 private:
  codecs::CodecSpec spec_;
  std::shared_ptr<const codecs::Codec> codec_;
};

}  // namespace

std::unique_ptr<Subject> make_cinch(const codecs::CodecSpec& spec) {
  auto codec = codecs::make_codec(spec);
  if (!codec) return nullptr;
  return std::make_unique<CinchSubject>(spec, std::move(codec));
}

}  // namespace cinch::bench
