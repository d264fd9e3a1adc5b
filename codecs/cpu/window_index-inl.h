// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_WINDOW_INDEX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_WINDOW_INDEX_INL_H_
#undef CINCH_CODECS_CPU_WINDOW_INDEX_INL_H_
#else
#define CINCH_CODECS_CPU_WINDOW_INDEX_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codecs/cpu/bits-inl.h"
#include "codecs/cpu/window_job.h"
#include "codecs/cpu/workspace.h"
#include "codecs/window_index.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Coordinates of a vector of indices.
template <class V>
struct VectorCoordinates {
  V d, h, w;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V multiply(D /*d*/, V a, std::uint32_t b) {
  const hn::RepartitionToNarrow<D> narrow;
  return hn::MulEven(hn::BitCast(narrow, a), hn::Set(narrow, b));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE VectorCoordinates<V> unravel(D d64, const cpu::WindowJob& job, V index) {
  const auto divide = [&](V v, const cpu::Divisor& by) {
    return hn::ShiftRightSame(multiply(d64, v, by.multiplier), by.shift);
  };
  const V row = divide(index, job.by_width);
  const V depth = divide(row, job.by_height);
  return {depth, hn::Sub(row, multiply(d64, depth, job.height)),
          hn::Sub(index, multiply(d64, row, job.width))};
}

/// Smallest and largest input coordinates at each output coordinate of one
/// plane, merged into `min` and `max`. @return false when an index is out of
/// range
bool window_survey(const cpu::WindowJob& job, const std::int64_t* plane, std::int64_t* min,
                   std::int64_t* max) {
  const hn::ScalableTag<std::uint64_t> du;
  const hn::RebindToSigned<decltype(du)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  const auto last = hn::Set(di, job.last);
  const auto& [depth, height, width] = job.output;
  std::int64_t* const w_min = min + depth + height;
  std::int64_t* const w_max = max + depth + height;
  bool good = true;
  for (std::int64_t d = 0; d < depth && good; ++d) {
    for (std::int64_t h = 0; h < height; ++h) {
      auto strange = hn::Zero(di);
      auto d_low = last, h_low = last, d_high = hn::Zero(di), h_high = hn::Zero(di);
      const auto look = [&](std::int64_t w, auto index) {
        strange = hn::Or(strange, hn::Or(index, hn::Sub(last, index)));
        const auto at = unravel(du, job, hn::BitCast(du, index));
        d_low = hn::Min(d_low, hn::BitCast(di, at.d));
        d_high = hn::Max(d_high, hn::BitCast(di, at.d));
        h_low = hn::Min(h_low, hn::BitCast(di, at.h));
        h_high = hn::Max(h_high, hn::BitCast(di, at.h));
        const auto column = hn::BitCast(di, at.w);
        hn::StoreU(hn::Min(hn::LoadU(di, w_min + w), column), di, w_min + w);
        hn::StoreU(hn::Max(hn::LoadU(di, w_max + w), column), di, w_max + w);
      };
      std::int64_t w = 0;
      for (; w + lanes <= width; w += lanes) look(w, hn::LoadU(di, plane + w));
      if (w < width) {
        // Filled up with the row's last index; the tables have room for a
        // vector more.
        HWY_ALIGN std::int64_t rest[HWY_MAX_BYTES / 8];
        std::fill_n(rest, lanes, plane[width - 1]);
        std::copy(plane + w, plane + width, rest);
        look(w, hn::Load(di, rest));
      }
      good &= hn::AllFalse(di, hn::Lt(strange, hn::Zero(di)));
      min[d] = std::min(min[d], hn::GetLane(hn::MinOfLanes(di, d_low)));
      max[d] = std::max(max[d], hn::GetLane(hn::MaxOfLanes(di, d_high)));
      min[depth + h] = std::min(min[depth + h], hn::GetLane(hn::MinOfLanes(di, h_low)));
      max[depth + h] = std::max(max[depth + h], hn::GetLane(hn::MaxOfLanes(di, h_high)));
      plane += width;
    }
  }
  return good;
}

/// Offsets within the windows of one plane's indices, one byte each.
void window_offsets(const cpu::WindowJob& job, const std::int64_t* plane,
                    const std::int64_t* origins, const WindowShape& shape, std::uint8_t* codes) {
  const hn::ScalableTag<std::uint64_t> du;
  const hn::RebindToSigned<decltype(du)> di;
  const hn::Rebind<std::uint8_t, decltype(du)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  const auto& [depth, height, width] = job.output;
  const auto per_row = static_cast<std::uint32_t>(shape.extent[2]);
  const std::uint32_t per_slice = per_row * static_cast<std::uint32_t>(shape.extent[1]);
  const std::int64_t* const w_origins = origins + depth + height;
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t h = 0; h < height; ++h) {
      const auto d0 = hn::Set(du, static_cast<std::uint64_t>(origins[d]));
      const auto h0 = hn::Set(du, static_cast<std::uint64_t>(origins[depth + h]));
      const auto offset = [&](std::int64_t w, auto index) {
        const auto at = unravel(du, job, hn::BitCast(du, index));
        const auto w0 = hn::BitCast(du, hn::LoadU(di, w_origins + w));
        const auto slices = multiply(du, hn::Sub(at.d, d0), per_slice);
        const auto rows = multiply(du, hn::Sub(at.h, h0), per_row);
        return hn::TruncateTo(d8, hn::Add(hn::Add(slices, rows), hn::Sub(at.w, w0)));
      };
      std::int64_t w = 0;
      for (; w + lanes <= width; w += lanes) {
        hn::StoreU(offset(w, hn::LoadU(di, plane + w)), d8, codes + w);
      }
      if (w < width) {
        HWY_ALIGN std::int64_t rest[HWY_MAX_BYTES / 8] = {};
        std::copy(plane + w, plane + width, rest);
        hn::StoreU(offset(w, hn::Load(di, rest)), d8, codes + w);
      }
      plane += width;
      codes += width;
    }
  }
}

/// Packs the codes of planes [first, last). @pre first is a multiple of
/// planes_per_byte
bool window_encode(const cpu::WindowJob& job, const void* source, const std::int64_t* origins,
                   const WindowShape& shape, std::byte* out, std::int64_t first,
                   std::int64_t last) {
  cpu::Workspace& work = cpu::workspace();
  const std::int64_t n = job.layout.plane_size();
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  CodeStream stream(shape.bits, out + first * n / 8 * shape.bits);
  const bool good = job.for_each_plane(source, first, last, [&](const std::int64_t* plane) {
    std::uint8_t* const room = stream.room(work.codes, n, slack);
    if (room == nullptr) return false;
    window_offsets(job, plane, origins, shape, room);
    stream.push(n);
    return true;
  });
  if (good) stream.finish();
  return good;
}

/// Codes of one plane to indices.
bool window_decode(const cpu::WindowJob& job, const std::byte* in, std::int64_t size,
                   const std::int32_t* origins, const WindowShape& shape, std::int64_t plane,
                   std::int64_t* indices) {
  const hn::ScalableTag<std::int64_t> di;
  const hn::Rebind<std::int32_t, decltype(di)> d32;
  const hn::Rebind<std::uint8_t, decltype(di)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  const auto& [depth, height, width] = job.output;
  const std::int64_t n = job.layout.plane_size();
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  auto* const buffer = cpu::workspace().codes.get<std::uint8_t>(n + 8 + 2 * slack);
  if (buffer == nullptr) return false;
  const std::uint8_t* codes = buffer;
  if (shape.bits == 0) {
    std::fill_n(buffer, n, std::uint8_t{0});
  } else {
    codes = unpack_codes(shape.bits, in, size, plane * n, n, buffer);
  }

  std::int64_t offsets[1 << kWindowMaxBits];
  for (int code = 0; code < 1 << shape.bits; ++code) {
    const std::int64_t w = code % shape.extent[2];
    const std::int64_t h = code / shape.extent[2] % shape.extent[1];
    const std::int64_t d = code / shape.extent[2] / shape.extent[1] % shape.extent[0];
    offsets[code] = (d * job.height + h) * job.width + w;
  }
  const std::int32_t* const w_origins = origins + depth + height;
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t h = 0; h < height; ++h) {
      const std::int64_t row =
          (std::int64_t{origins[d]} * job.height + origins[depth + h]) * job.width;
      // Only damaged bytes can lead past the end; backward must not be led
      // there.
      std::int64_t w = 0;
      for (; w + lanes <= width; w += lanes) {
        const auto code = hn::PromoteTo(di, hn::PromoteTo(d32, hn::LoadU(d8, codes + w)));
        const auto origin = hn::PromoteTo(di, hn::LoadU(d32, w_origins + w));
        const auto at =
            hn::Add(hn::Add(origin, hn::Set(di, row)), hn::GatherIndex(di, offsets, code));
        hn::StoreU(hn::Min(at, hn::Set(di, job.last)), di, indices + w);
      }
      for (; w < width; ++w) {
        indices[w] = std::min(row + w_origins[w] + offsets[codes[w]], job.last);
      }
      indices += width;
      codes += width;
    }
  }
  return true;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
