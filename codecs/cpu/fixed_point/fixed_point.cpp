// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/fixed_point.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/fixed_point/fixed_point.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/fixed_point/decode-inl.h"
#include "codecs/cpu/fixed_point/encode-inl.h"
#include "codecs/cpu/fixed_point/survey-inl.h"
// clang-format on

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <span>

#include "codecs/cpu/fixed_point/job.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(fixed_point_survey);
HWY_EXPORT(fixed_point_encode);
HWY_EXPORT(fixed_point_decode);

using cpu::ChannelSurvey;
using cpu::FixedPointJob;

/// Tables by channel, and by [chunk * channels + channel], in the calling thread's workspace.
struct Tables {
  ChannelSurvey survey = {};         ///< decode uses nonzero only
  ChannelFormat* formats = nullptr;  ///< by channel
  std::int64_t* offsets = nullptr;   ///< of chunks in the encoded bytes

  explicit Tables(const FixedPointJob& job) noexcept {
    const std::int64_t channels = job.what.layout.channels();
    const std::int64_t entries = job.chunks * channels;
    float* const numbers = cpu::workspace().survey.get<float>(4 * entries);
    offsets = cpu::workspace().offsets.get<std::int64_t>(entries + channels);
    if (!*this || numbers == nullptr) {
      offsets = nullptr;
      return;
    }
    survey = {numbers, numbers + entries, reinterpret_cast<std::int32_t*>(numbers + 2 * entries),
              reinterpret_cast<std::int32_t*>(numbers + 3 * entries)};
    static_assert(sizeof(ChannelFormat) <= sizeof(std::int64_t));
    formats = reinterpret_cast<ChannelFormat*>(offsets + entries);
  }
  ~Tables() {
    cpu::workspace().survey.trim();
    cpu::workspace().offsets.trim();
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  /// False when memory ran out.
  explicit operator bool() const noexcept { return offsets != nullptr; }
};

/// Runs `tasks(first, last)` over all tasks until one returns false.
template <typename F>
bool run(const FixedPointJob& job, ParallelFor parallel, const F& tasks) {
  std::atomic<bool> good = true;
  for_range(parallel, job.tasks(job.cut), job.grain(job.cut),
            [&](std::int64_t first, std::int64_t last) {
              if (good.load(std::memory_order_relaxed) && !tasks(first, last)) good.store(false);
              cpu::workspace().trim();
            });
  return good.load();
}

class FixedPointCpu final : public FixedPointCodec {
 public:
  using FixedPointCodec::FixedPointCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const FixedPointJob job(what);
    const Tables tables(job);
    if (!tables) return {};
    const cpu::FixedPointCut& cut = job.survey_cut;
    for_range(parallel, job.tasks(cut), job.grain(cut), [&](std::int64_t first, std::int64_t last) {
      HWY_DYNAMIC_DISPATCH(fixed_point_survey)(job, source, first, last, tables.survey);
    });
    const std::int64_t size = plan(job, tables, out.data());
    if (!run(job, parallel, [&](std::int64_t first, std::int64_t last) {
          return HWY_DYNAMIC_DISPATCH(fixed_point_encode)(
              job, source, tables.formats, tables.offsets, key, first, last, out.data());
        })) {
      return {};
    }
    return {true, static_cast<std::size_t>(size)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    const std::int64_t size = read_header(what, in, reads);
    if (size < 0) return false;
    const FixedPointJob job(what);
    const Tables tables(job);
    if (!tables || !read_tables(job, in.data(), size, tables)) return false;
    return run(job, parallel, [&](std::int64_t first, std::int64_t last) {
      return HWY_DYNAMIC_DISPATCH(fixed_point_decode)(job, in.data(), tables.formats,
                                                      tables.offsets, tables.survey.nonzero, first,
                                                      last, target);
    });
  }

 private:
  /// Chooses every channel's format from the survey, writes header, table and counts, and computes
  /// the chunks' offsets. @return the encoded size
  std::int64_t plan(const FixedPointJob& job, const Tables& tables, std::byte* out) const noexcept {
    const std::int64_t channels = job.what.layout.channels();
    std::byte* const table = out + kFixedPointHeaderBytes;
    std::byte* const counts = table + channels * kFixedPointEntryBytes;
    std::int64_t counted = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      tables.formats[c] = format(job, tables.survey, c);
      write_entry(tables.formats[c], table + c * kFixedPointEntryBytes);
      if (tables.formats[c].form != ChannelForm::zero_value) continue;
      for (std::int64_t k = 0; k < job.chunks; ++k, ++counted) {
        const auto nonzero = static_cast<std::uint16_t>(tables.survey.nonzero[k * channels + c]);
        std::memcpy(counts + 2 * counted, &nonzero, 2);
      }
    }
    const std::int64_t size = place(job, tables, counts - out + 2 * counted);
    write_header(job.what, size, out);
    return size;
  }

  ChannelFormat format(const FixedPointJob& job, const ChannelSurvey& survey,
                       std::int64_t c) const noexcept {
    const std::int64_t channels = job.what.layout.channels();
    float min = std::numeric_limits<float>::infinity();
    float max = -min;
    std::int32_t largest = 0;
    for (std::int64_t k = 0; k < job.chunks; ++k) {
      const std::int64_t entry = k * channels + c;
      min = std::min(min, survey.min[entry]);
      max = std::max(max, survey.max[entry]);
      largest = std::max(largest, survey.largest[entry]);
    }
    const bool good = largest <= static_cast<std::int32_t>(float_bits(kAffineMaxMagnitude));
    ChannelFormat format = fit_channel(min, max, good, bound(job.what, c), job.what.type);
    std::int64_t zero_value = -1;
    if (parameters().zero_value) {
      zero_value = 2 * job.chunks;
      for (std::int64_t k = 0; k < job.chunks; ++k) {
        zero_value += zero_value_bytes(chunk_elements(job.elements, k),
                                       survey.nonzero[k * channels + c], format.bits);
      }
    }
    format.form = choose_form(format.bits, job.elements * std::int64_t(element_size(job.what.type)),
                              codes_bytes(job.elements, format.bits), zero_value);
    return format;
  }

  /// Computes the offsets of all chunks, channel by channel from `at` on. @return their end
  static std::int64_t place(const FixedPointJob& job, const Tables& tables,
                            std::int64_t at) noexcept {
    const std::int64_t channels = job.what.layout.channels();
    const auto element = static_cast<std::int64_t>(element_size(job.what.type));
    for (std::int64_t c = 0; c < channels; ++c) {
      const ChannelFormat& format = tables.formats[c];
      for (std::int64_t k = 0; k < job.chunks; ++k) {
        const std::int64_t entry = k * channels + c;
        const std::int64_t elements = chunk_elements(job.elements, k);
        tables.offsets[entry] = at;
        at += format.form == ChannelForm::raw ? elements * element
              : format.form == ChannelForm::codes
                  ? codes_bytes(elements, format.bits)
                  : zero_value_bytes(elements, tables.survey.nonzero[entry], format.bits);
      }
    }
    return at;
  }

  /// Reads table and counts from `in`, `size` bytes in all, and computes the chunks' offsets.
  /// @return false when they are not as `plan` writes them
  static bool read_tables(const FixedPointJob& job, const std::byte* in, std::int64_t size,
                          const Tables& tables) noexcept {
    const std::int64_t channels = job.what.layout.channels();
    std::int64_t at = kFixedPointHeaderBytes + channels * kFixedPointEntryBytes;
    for (std::int64_t c = 0; c < channels; ++c) {
      ChannelFormat& format = tables.formats[c];
      if (!read_entry(in + kFixedPointHeaderBytes + c * kFixedPointEntryBytes, format)) {
        return false;
      }
      if (format.form != ChannelForm::zero_value) continue;
      if (2 * job.chunks > size - at) return false;
      for (std::int64_t k = 0; k < job.chunks; ++k, at += 2) {
        std::uint16_t nonzero;
        std::memcpy(&nonzero, in + at, 2);
        if (nonzero > chunk_elements(job.elements, k)) return false;
        tables.survey.nonzero[k * channels + c] = nonzero;
      }
    }
    return place(job, tables, at) == size;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_fixed_point_cpu(const FixedPointParameters& parameters) {
  return std::make_shared<FixedPointCpu>(parameters);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
