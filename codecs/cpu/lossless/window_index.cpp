// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/window_index.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/lossless/window_index.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/lossless/window_index-inl.h"
// clang-format on

#if HWY_ONCE

#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "codecs/cpu/lossless/window_job.h"

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
    // A few planes nearly always show all of every window. If they don't, encoding meets an index
    // outside the windows found, and starts again with those of all planes.
    Tables sample(job);
    if (!survey_sample(job, source, sample)) return {};
    if (const Encoded result = encode_in(job, source, sample, out, parallel);
        result.representable) {
      return result;
    }
    Tables all(job);
    if (!survey_all(job, source, parallel, all)) return {};
    return encode_in(job, source, all, out, parallel);
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override try {
    if (!accepts(what)) return false;
    const WindowJob job(what);
    std::vector<std::int32_t> origins(job.table_room());
    const auto& [depth, height, width] = job.output;
    const std::span<std::int32_t> all(origins);
    WindowShape shape;
    if (!read_tables(
            what, in, reads, shape,
            {all.first(depth), all.subspan(depth, height), all.subspan(depth + height, width)})) {
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
  /// Smallest and largest input coordinates at each output coordinate.
  struct Tables {
    std::vector<std::int64_t> min;
    std::vector<std::int64_t> max;
    bool all = false;  ///< all planes were surveyed, not only some

    explicit Tables(const WindowJob& job)
        : min(job.table_room(), std::numeric_limits<std::int32_t>::max()),
          max(job.table_room(), 0) {}
  };

  /// Merges planes [first, last) into the tables. @return false when an index is out of range
  static bool survey(const WindowJob& job, const void* source, std::int64_t first,
                     std::int64_t last, std::int64_t* min, std::int64_t* max) {
    const auto kernel = HWY_DYNAMIC_DISPATCH(window_survey);
    return job.for_each_plane(source, first, last, [&](const std::int64_t* plane) {
      return kernel(job, plane, min, max);
    });
  }

  static bool survey_sample(const WindowJob& job, const void* source, Tables& tables) {
    constexpr std::int64_t kStretches = 8, kElements = 4096;
    const std::int64_t planes = job.layout.planes();
    const std::int64_t count = kElements / job.layout.plane_size() + 1;
    tables.all = kStretches * count >= planes;
    if (tables.all) return survey(job, source, 0, planes, tables.min.data(), tables.max.data());
    for (std::int64_t i = 0; i < kStretches; ++i) {
      const std::int64_t first = (planes - count) / (kStretches - 1) * i;
      if (!survey(job, source, first, first + count, tables.min.data(), tables.max.data())) {
        return false;
      }
    }
    return true;
  }

  static bool survey_all(const WindowJob& job, const void* source, ParallelFor parallel,
                         Tables& tables) {
    std::mutex merging;
    std::atomic<bool> good = true;
    for_range(parallel, job.layout.planes(), job.grain(),
              [&](std::int64_t first, std::int64_t last) {
                const std::int64_t room = job.table_room();
                auto* const min = cpu::workspace().row.get<std::int64_t>(room);
                auto* const max = cpu::workspace().sums.get<std::int64_t>(room);
                if (min == nullptr || max == nullptr) {
                  good.store(false);
                  return;
                }
                std::fill_n(min, room, std::numeric_limits<std::int32_t>::max());
                std::fill_n(max, room, 0);
                if (!good.load(std::memory_order_relaxed) ||
                    !survey(job, source, first, last, min, max)) {
                  good.store(false);
                  return;
                }
                const std::lock_guard<std::mutex> lock(merging);
                for (std::int64_t i = 0; i < job.table_size(); ++i) {
                  tables.min[i] = std::min(tables.min[i], min[i]);
                  tables.max[i] = std::max(tables.max[i], max[i]);
                }
              });
    tables.all = true;
    return good.load();
  }

  static WindowShape window_shape(const WindowJob& job, const Tables& tables) {
    std::array<std::int32_t, 3> extent = {1, 1, 1};
    std::int64_t entry = 0;
    for (int axis = 0; axis < 3; ++axis) {
      for (std::int64_t i = 0; i < job.output[axis]; ++i, ++entry) {
        const auto offsets = static_cast<std::int32_t>(tables.max[entry] - tables.min[entry] + 1);
        extent[axis] = std::max(extent[axis], offsets);
      }
    }
    return WindowShape::of(extent);
  }

  /// Encodes with the windows in `tables`. Not representable when an index lies outside of them.
  static Encoded encode_in(const WindowJob& job, const void* source, const Tables& tables,
                           std::span<std::byte> out, ParallelFor parallel) {
    const WindowShape shape = window_shape(job, tables);
    if (shape.bits > kWindowMaxBits || (shape.bits == 0 && !tables.all)) return {};
    shape.write(out.data());
    for (std::int64_t i = 0; i < job.table_size(); ++i) {
      const auto origin = static_cast<std::int32_t>(job.layout.planes() == 0 ? 0 : tables.min[i]);
      std::memcpy(out.data() + kWindowHeaderBytes + 4 * i, &origin, 4);
    }
    std::atomic<bool> good = true;
    if (shape.bits > 0) {
      const auto kernel = HWY_DYNAMIC_DISPATCH(window_encode);
      std::byte* const codes = out.data() + codes_offset(job.layout);
      for_range(parallel, job.layout.planes(), job.grain(),
                [&](std::int64_t first, std::int64_t last) {
                  if (!good.load(std::memory_order_relaxed) ||
                      !kernel(job, source, tables.min.data(), shape, codes, first, last)) {
                    good.store(false, std::memory_order_relaxed);
                  }
                  cpu::workspace().trim();
                });
    }
    if (!good.load()) return {};
    return {true, static_cast<std::size_t>(encoded_size(job.layout, shape.bits))};
  }
};

}  // namespace

std::shared_ptr<const Codec> make_window_index_cpu() {
  return std::make_shared<WindowIndexCpu>();
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
