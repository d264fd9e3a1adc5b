// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/dct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/dct/dct.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/dct/decode-inl.h"
#include "codecs/cpu/dct/encode-inl.h"
// clang-format on

#if HWY_ONCE

#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/dct/job.h"
#include "codecs/cpu/workspace.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(dct_encode);
HWY_EXPORT(dct_decode);

using cpu::DctJob;

/// Runs `chunks(first, last)` over all chunks until one returns false.
template <typename F>
bool run(const DctJob& job, ParallelFor parallel, const F& chunks) {
  std::atomic<bool> good = true;
  for_range(parallel, job.geometry.chunks(), job.grain(),
            [&](std::int64_t first, std::int64_t last) {
              if (good.load(std::memory_order_relaxed) && !chunks(first, last)) good.store(false);
              cpu::workspace().trim();
            });
  return good.load();
}

class DctCpu final : public DctCodec {
 public:
  using DctCodec::DctCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const DctJob job(what, parameters());
    const std::int64_t chunks = job.geometry.chunks();
    auto* const begins = cpu::workspace().offsets.get<std::int64_t>(chunks);
    if (begins == nullptr) return {};
    std::byte* const sizes = out.data() + kDctHeaderBytes;
    std::byte* const data = out.data() + payload(job.geometry);
    const bool good = run(job, parallel, [&](std::int64_t first, std::int64_t last) {
      return HWY_DYNAMIC_DISPATCH(dct_encode)(job, source, first, last, sizes, begins, data);
    });
    std::int64_t size = 0;
    for (std::int64_t chunk = 0; chunk < chunks && good; ++chunk) {
      std::uint16_t bytes;
      std::memcpy(&bytes, sizes + 2 * chunk, 2);
      // There may be a gap where another task began.
      if (begins[chunk] != size) std::memmove(data + size, data + begins[chunk], bytes);
      size += bytes;
    }
    cpu::workspace().offsets.trim();
    if (!good) return {};
    size += data - out.data();
    write_header(what, size, out.data());
    return {true, static_cast<std::size_t>(size)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    const std::int64_t size = read_header(what, in, reads);
    if (size < 0) return false;
    const DctJob job(what, parameters());
    const std::int64_t chunks = job.geometry.chunks();
    auto* const begins = cpu::workspace().offsets.get<std::int64_t>(chunks + 1);
    if (begins == nullptr) return false;
    begins[0] = payload(job.geometry);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      std::uint16_t bytes;
      std::memcpy(&bytes, in.data() + kDctHeaderBytes + 2 * chunk, 2);
      begins[chunk + 1] = begins[chunk] + bytes;
    }
    const bool good =
        begins[chunks] == size && run(job, parallel, [&](std::int64_t first, std::int64_t last) {
          return HWY_DYNAMIC_DISPATCH(dct_decode)(job, in.data(), begins, size, first, last,
                                                  target);
        });
    cpu::workspace().offsets.trim();
    return good;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_dct_cpu(const DctParameters& parameters) {
  return std::make_shared<DctCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
