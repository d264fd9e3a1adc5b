// SPDX-License-Identifier: Apache-2.0
#include "codecs/window_index.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/window_index.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/window_index-inl.h"
// clang-format on

#if HWY_ONCE

#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "codecs/cpu/window_job.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(window_survey);
HWY_EXPORT(window_encode);
HWY_EXPORT(window_decode);

using cpu::WindowJob;

class WindowIndexCpu final : public WindowIndexCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override try {
    const WindowJob job(what);
    std::vector<std::int64_t> min(job.table_room(), std::numeric_limits<std::int32_t>::max());
    std::vector<std::int64_t> max(job.table_room(), 0);
    if (!survey(job, source, parallel, min, max)) return {};

    const WindowShape shape = window_shape(job, min, max);
    if (shape.bits > kWindowMaxBits) return {};
    shape.write(out.data());
    for (std::int64_t i = 0; i < job.table_size(); ++i) {
      const auto origin = static_cast<std::int32_t>(job.layout.planes() == 0 ? 0 : min[i]);
      std::memcpy(out.data() + kWindowHeaderBytes + 4 * i, &origin, 4);
    }

    const Encoded result = {true, static_cast<std::size_t>(encoded_size(job.layout, shape.bits))};
    if (shape.bits == 0) return result;
    std::byte* const codes = out.data() + codes_offset(job.layout);
    std::atomic<bool> good = true;
    for_range(parallel, job.layout.planes(), job.grain(),
              [&](std::int64_t first, std::int64_t last) {
                if (!HWY_DYNAMIC_DISPATCH(window_encode)(job, source, min.data(), shape, codes,
                                                         first, last)) {
                  good.store(false);
                }
                cpu::workspace().trim();
              });
    return good.load() ? result : Encoded{};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override try {
    if (!accepts(what)) return false;
    const WindowJob job(what);
    std::vector<std::int32_t> origins(job.table_size());
    const auto& [depth, height, width] = job.output;
    const std::span<std::int32_t> all(origins);
    WindowShape shape;
    if (!read_tables(what, in, reads, shape,
                     {all.first(depth), all.subspan(depth, height), all.last(width)})) {
      return false;
    }
    const std::span<const std::byte> codes = in.subspan(codes_offset(job.layout));
    std::atomic<bool> good = true;
    for_range(
        parallel, job.layout.planes(), job.grain(), [&](std::int64_t first, std::int64_t last) {
          const auto kernel = HWY_DYNAMIC_DISPATCH(window_decode);
          if (!job.make_each_plane(target, first, last, [&](std::int64_t plane, std::int64_t* to) {
                return kernel(job, codes.data(), static_cast<std::int64_t>(codes.size()),
                              origins.data(), shape, plane, to);
              })) {
            good.store(false);
          }
          cpu::workspace().trim();
        });
    return good.load();
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  /// Fills the tables from all planes; false when an index is out of range.
  static bool survey(const WindowJob& job, const void* source, ParallelFor parallel,
                     std::vector<std::int64_t>& min, std::vector<std::int64_t>& max) {
    std::mutex merging;
    std::atomic<bool> good = true;
    for_range(parallel, job.layout.planes(), job.grain(),
              [&](std::int64_t first, std::int64_t last) {
                const auto kernel = HWY_DYNAMIC_DISPATCH(window_survey);
                const std::int64_t room = job.table_room();
                auto* const low = cpu::workspace().row.get<std::int64_t>(room);
                auto* const high = cpu::workspace().sums.get<std::int64_t>(room);
                if (low == nullptr || high == nullptr) {
                  good.store(false);
                  return;
                }
                std::fill_n(low, room, std::numeric_limits<std::int32_t>::max());
                std::fill_n(high, room, 0);
                if (!job.for_each_plane(source, first, last, [&](const std::int64_t* plane) {
                      return good.load(std::memory_order_relaxed) && kernel(job, plane, low, high);
                    })) {
                  good.store(false);
                  return;
                }
                const std::lock_guard<std::mutex> lock(merging);
                for (std::int64_t i = 0; i < job.table_size(); ++i) {
                  min[i] = std::min(min[i], low[i]);
                  max[i] = std::max(max[i], high[i]);
                }
              });
    return good.load();
  }

  static WindowShape window_shape(const WindowJob& job, const std::vector<std::int64_t>& min,
                                  const std::vector<std::int64_t>& max) {
    std::array<std::int32_t, 3> extent = {1, 1, 1};
    std::int64_t entry = 0;
    for (int axis = 0; axis < 3; ++axis) {
      for (std::int64_t i = 0; i < job.output[axis]; ++i, ++entry) {
        const auto offsets = static_cast<std::int32_t>(max[entry] - min[entry] + 1);
        extent[axis] = std::max(extent[axis], offsets);
      }
    }
    return WindowShape::of(extent);
  }
};

}  // namespace

std::shared_ptr<const Codec> make_window_index_cpu() {
  return std::make_shared<WindowIndexCpu>();
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
