// SPDX-License-Identifier: Apache-2.0
#include "codecs/float_split_zstd.h"

#include <memory>

#include <zstd.h>

namespace cinch::codecs {
namespace {

struct Free {
  void operator()(ZSTD_CCtx* context) const noexcept { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};

ZSTD_CCtx* make_compressor() noexcept {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  if (context == nullptr) return nullptr;
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_strategy, ZSTD_fast);
  ZSTD_CCtx_setParameter(context, ZSTD_c_minMatch, 7);
  ZSTD_CCtx_setParameter(context, ZSTD_c_hashLog, 6);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  return context;
}

}  // namespace

std::size_t zstd_compress(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> context(make_compressor());
  if (context == nullptr) return 0;
  const std::size_t written =
      ZSTD_compress2(context.get(), out.data(), out.size(), in.data(), in.size());
  return ZSTD_isError(written) != 0 ? 0 : written;
}

bool zstd_decompress(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  if (context == nullptr) return false;
  return ZSTD_decompressDCtx(context.get(), out.data(), out.size(), in.data(), in.size()) ==
         out.size();
}

}  // namespace cinch::codecs
