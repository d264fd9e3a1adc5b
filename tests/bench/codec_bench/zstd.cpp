// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/opponents.h"

#ifdef CINCH_BENCH_ZSTD
#include <zstd.h>

#include "tests/bench/codec_bench/pieces.h"

namespace cinch::bench {
namespace {

class Zstd : public PiecewiseSubject {
 public:
  explicit Zstd(int level) : level_(level) {}
  bool accepts(const codecs::Description& /*what*/) const override { return true; }

 protected:
  std::size_t bound(std::size_t bytes, std::size_t /*width*/) const override {
    return ZSTD_compressBound(bytes);
  }
  std::size_t compress(std::span<const std::byte> source, std::size_t /*width*/,
                       std::span<std::byte> out) const override {
    thread_local const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(
        ZSTD_createCCtx(), ZSTD_freeCCtx);
    const std::size_t size = ZSTD_compressCCtx(context.get(), out.data(), out.size(), source.data(),
                                               source.size(), level_);
    return ZSTD_isError(size) != 0 ? 0 : size;
  }
  bool decompress(std::span<const std::byte> in, std::size_t /*width*/,
                  std::span<std::byte> target) const override {
    thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(
        ZSTD_createDCtx(), ZSTD_freeDCtx);
    return ZSTD_decompressDCtx(context.get(), target.data(), target.size(), in.data(), in.size()) ==
           target.size();
  }

 private:
  int level_;
};

}  // namespace

std::unique_ptr<Subject> make_zstd(int level) {
  return std::make_unique<Zstd>(level);
}

}  // namespace cinch::bench
#else
namespace cinch::bench {
std::unique_ptr<Subject> make_zstd(int /*level*/) {
  return nullptr;
}
}  // namespace cinch::bench
#endif
