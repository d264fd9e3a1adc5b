// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/opponents.h"

#ifdef CINCH_BENCH_LZ4
#include <lz4.h>

#include "tests/bench/codec_bench/pieces.h"

namespace cinch::bench {
namespace {

class Lz4 : public PiecewiseSubject {
 public:
  bool accepts(const codecs::Description& what) const override {
    // A piece is at least a plane, and lz4 counts in int.
    return what.layout.plane_size() < LZ4_MAX_INPUT_SIZE / 8;
  }

 protected:
  std::size_t bound(std::size_t bytes, std::size_t /*width*/) const override {
    return LZ4_compressBound(static_cast<int>(bytes));
  }
  std::size_t compress(std::span<const std::byte> source, std::size_t /*width*/,
                       std::span<std::byte> out) const override {
    return LZ4_compress_default(reinterpret_cast<const char*>(source.data()),
                                reinterpret_cast<char*>(out.data()),
                                static_cast<int>(source.size()), static_cast<int>(out.size()));
  }
  bool decompress(std::span<const std::byte> in, std::size_t /*width*/,
                  std::span<std::byte> target) const override {
    const auto size = static_cast<int>(target.size());
    return LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()),
                               reinterpret_cast<char*>(target.data()), static_cast<int>(in.size()),
                               size) == size;
  }
};

}  // namespace

std::unique_ptr<Subject> make_lz4() {
  return std::make_unique<Lz4>();
}

}  // namespace cinch::bench
#else
namespace cinch::bench {
std::unique_ptr<Subject> make_lz4() {
  return nullptr;
}
}  // namespace cinch::bench
#endif
