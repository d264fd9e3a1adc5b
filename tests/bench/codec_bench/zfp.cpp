// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/opponents.h"

#ifdef CINCH_BENCH_ZFP
#include <zfp.h>

#include "tests/bench/codec_bench/pieces.h"

namespace cinch::bench {
namespace {

enum class Mode { rate, accuracy };

class Zfp : public PiecewiseSubject {
 public:
  Zfp(Mode mode, double value) : mode_(mode), value_(value) {}

  bool accepts(const codecs::Description& what) const override {
    return what.type == codecs::ElementType::float32 && what.layout.is_contiguous();
  }

 protected:
  std::size_t bound(std::size_t bytes, std::size_t width) const override {
    const Call call(*this, nullptr, bytes, width, {});
    return zfp_stream_maximum_size(call.stream, call.field);
  }
  std::size_t compress(std::span<const std::byte> source, std::size_t width,
                       std::span<std::byte> out) const override {
    const Call call(*this, source.data(), source.size(), width, out);
    return zfp_compress(call.stream, call.field);
  }
  bool decompress(std::span<const std::byte> in, std::size_t width,
                  std::span<std::byte> target) const override {
    const Call call(*this, target.data(), target.size(), width, in);
    return zfp_decompress(call.stream, call.field) != 0;
  }

 private:
  /// zfp's objects for one call on `bytes` of lines of `width` floats at `data`.
  struct Call {
    Call(const Zfp& zfp, const std::byte* data, std::size_t bytes, std::size_t width,
         std::span<const std::byte> encoded)
        : bits(stream_open(const_cast<std::byte*>(encoded.data()), encoded.size())),
          stream(zfp_stream_open(bits)),
          field(zfp_field_2d(const_cast<std::byte*>(data), zfp_type_float, width,
                             bytes / sizeof(float) / width)) {
      if (zfp.mode_ == Mode::rate) {
        zfp_stream_set_rate(stream, zfp.value_, zfp_type_float, 2, zfp_false);
      } else {
        zfp_stream_set_accuracy(stream, zfp.value_);
      }
      zfp_stream_rewind(stream);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
      zfp_field_free(field);
      zfp_stream_close(stream);
      stream_close(bits);
    }

    bitstream* bits;
    zfp_stream* stream;
    zfp_field* field;
  };

  Mode mode_;
  double value_;
};

}  // namespace

std::unique_ptr<Subject> make_zfp_rate(double bits) {
  return std::make_unique<Zfp>(Mode::rate, bits);
}
std::unique_ptr<Subject> make_zfp_accuracy(double bound) {
  return std::make_unique<Zfp>(Mode::accuracy, bound);
}

}  // namespace cinch::bench
#else
namespace cinch::bench {
std::unique_ptr<Subject> make_zfp_rate(double /*bits*/) {
  return nullptr;
}
std::unique_ptr<Subject> make_zfp_accuracy(double /*bound*/) {
  return nullptr;
}
}  // namespace cinch::bench
#endif
