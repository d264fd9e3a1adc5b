// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_BLPA_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_BLPA_DECODE_INL_H_
#undef CINCH_CODECS_CPU_BLPA_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_BLPA_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/blpa/job.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/stream.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/code_values-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/stream-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/blpa.h"
#include "codecs/layout.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Decodes elements of kind S, stretch by stretch.
template <class S>
class BlpaDecoder {
  using Raw = typename S::Raw;

  /// What an element of value v decodes to.
  enum class Meaning {
    value,              ///< v
    value_if_positive,  ///< v if v > 0, else 0
    one_if_positive,    ///< 1 if v > 0, else 0
  };

 public:
  /// `in_place`: elements are written to their final places, not to scratch.
  BlpaDecoder(const cpu::BlpaJob& job, const std::byte* in, bool in_place)
      : job_(job),
        in_(in),
        past_caches_(in_place && !job.has_signs &&
                     cpu::writes_past_caches(job.what.layout.elements() *
                                             static_cast<std::int64_t>(sizeof(Raw)))),
        aligned_(job.channels.period() == 0 &&
                 job.what.layout.plane_size() %
                         static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<Raw>())) ==
                     0) {
    if (job.parameters.with_sign && !job.has_signs) {
      meaning_ = job.reads == Reads::sign ? Meaning::one_if_positive : Meaning::value_if_positive;
    }
  }

  /// @return false when memory ran out
  bool prepare() {
    constexpr std::int64_t kRoom = cpu::kBlpaStretch + 1024;
    cpu::Workspace& work = cpu::workspace();
    codes_ = work.codes.get<std::uint8_t>(kRoom);
    signs_ = work.signs.get<std::uint8_t>(kRoom);
    floats_ = work.plane.get<float>(cpu::kBlpaStretch);
    stretch_ = work.residual.get<Raw>(cpu::kBlpaStretch);
    return codes_ != nullptr && signs_ != nullptr && floats_ != nullptr && stretch_ != nullptr;
  }

  /// Decodes elements [begin, end), at most a stretch, to x.
  void decode(std::int64_t begin, std::int64_t end, Raw* x) const {
    // Planes that do not fill vectors are first assembled in scratch.
    if (past_caches_ && !aligned_) {
      decode_to(begin, end, {stretch_, end - begin, false});
      stream_copy(stretch_, end - begin, x);
    } else {
      decode_to(begin, end, {x, end - begin, past_caches_});
    }
  }

  void finish() const {
    if (past_caches_) hwy::FlushStream();
  }

 private:
  void decode_to(std::int64_t begin, std::int64_t end, Target<Raw> target) const {
    const std::int64_t count = end - begin;
    if (job_.has_signs && job_.reads == Reads::sign) {
      const std::uint8_t* const signs = unpack(1, job_.sections.signs, begin, count, signs_);
      write(signs, count, 1, 1.0F, 0.0F, Meaning::value, target);
      return;
    }
    const std::uint8_t* const codes =
        unpack(job_.parameters.bits, job_.sections.codes, begin, count, codes_);
    const std::uint8_t* const signs =
        job_.has_signs ? unpack(1, job_.sections.signs, begin, count, signs_) : nullptr;
    if (job_.channels.period() != 0) {
      decode_each(codes, begin, count, target.x);
      keep_positive(signs, count, target.x);
    } else {
      decode_pieces(codes, signs, begin, end, target);
    }
  }

  const std::uint8_t* unpack(int bits, std::int64_t section, std::int64_t begin, std::int64_t count,
                             std::uint8_t* room) const {
    return unpack_codes(bits, in_ + section, job_.sections.end - section, begin, count, room);
  }

  /// Converts v = d * middle to what `meaning` asks for.
  template <class DF, class VF>
  static HWY_INLINE VF meant(DF df, VF v, VF middle, Meaning meaning) {
    const auto positive = hn::Gt(middle, hn::Zero(df));
    if (meaning == Meaning::value_if_positive) return hn::IfThenElseZero(positive, v);
    if (meaning == Meaning::one_if_positive) {
      return hn::IfThenElseZero(positive, hn::Set(df, 1.0F));
    }
    return v;
  }

  /// Decodes codes; `first` is the middle of code 0.
  static HWY_NOINLINE void write(const std::uint8_t* codes, std::int64_t count, int bits,
                                 float step, float first, Meaning meaning, Target<Raw> target) {
    write_values(S(), codes, count, bits, target, [=](auto df, auto c) HWY_ATTR {
      const auto middle = hn::Add(c, hn::Set(df, first));
      return meant(df, hn::Mul(hn::Set(df, step), middle), middle, meaning);
    });
  }

  void decode_pieces(const std::uint8_t* codes, const std::uint8_t* signs, std::int64_t begin,
                     std::int64_t end, Target<Raw> target) const {
    const PlaneLayout& layout = job_.what.layout;
    const std::int64_t size = layout.plane_size();
    const int bits = job_.parameters.bits;
    for (std::int64_t k = begin; k < end;) {
      const std::int64_t plane = k / size;
      const std::int64_t some = std::min(end, (plane + 1) * size) - k;
      const BlpaGrid grid = job_.channels.grids()[plane % layout.inner];
      if (grid == poisoned_grid() && job_.reads == Reads::values) {
        std::fill_n(target.x, some, nan_of(S()));
      } else {
        const float step = float_of_bf16(grid.step);
        const float first = blpa_middle(0, grid, bits);
        write(codes, some, bits, step, first, meaning_, target);
        keep_positive(signs, some, target.x);
      }
      codes += some;
      if (signs != nullptr) signs += some;
      target.x += some;
      target.writable -= some;
      k += some;
    }
  }

  /// Decodes elements of small planes.
  void decode_each(const std::uint8_t* codes, std::int64_t begin, std::int64_t count,
                   Raw* x) const {
    const hn::ScalableTag<float> df;
    const hn::RebindToSigned<decltype(df)> di;
    const hn::Rebind<std::uint8_t, decltype(df)> d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    const std::int64_t period = job_.channels.period();
    float* const values = target_or_floats(x);
    const Meaning meaning = meaning_;
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t from = (begin + i) % period;
      const std::int64_t some = std::min(count - i, period - from);
      const float* const steps = job_.channels.first_table() + from;
      const float* const firsts = job_.channels.second_table() + from;
      const auto vector = [&](const std::uint8_t* code, const float* step,
                              const float* first) HWY_ATTR {
        const auto c = hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d8, code)));
        const auto middle = hn::Add(c, hn::LoadU(df, first));
        return meant(df, hn::Mul(hn::LoadU(df, step), middle), middle, meaning);
      };
      std::int64_t j = 0;
      for (; j + lanes <= some; j += lanes) {
        hn::StoreU(vector(codes + i + j, steps + j, firsts + j), df, values + i + j);
      }
      if (j < some) {
        HWY_ALIGN float rest[3][HWY_MAX_BYTES / 4] = {};
        std::memcpy(rest[0], steps + j, (some - j) * sizeof(float));
        std::memcpy(rest[1], firsts + j, (some - j) * sizeof(float));
        hn::Store(vector(codes + i + j, rest[0], rest[1]), df, rest[2]);
        std::memcpy(values + i + j, rest[2], (some - j) * sizeof(float));
      }
      i += some;
    }
    if constexpr (!std::is_same_v<S, Float32>) from_floats<S>(values, count, x);
  }

  float* target_or_floats(Raw* x) const {
    if constexpr (std::is_same_v<S, Float32>) return x;
    return floats_;
  }

  /// Zeroes the elements that aren't positive, unless `signs` is null.
  static void keep_positive(const std::uint8_t* signs, std::int64_t count, Raw* x) {
    if (signs == nullptr) return;
    for (std::int64_t i = 0; i < count; ++i) x[i] = signs[i] != 0 ? x[i] : Raw{0};
  }

  const cpu::BlpaJob& job_;
  const std::byte* in_;
  bool past_caches_;
  bool aligned_;
  Meaning meaning_ = Meaning::value;
  std::uint8_t* codes_ = nullptr;
  std::uint8_t* signs_ = nullptr;
  float* floats_ = nullptr;
  Raw* stretch_ = nullptr;
};

/// Decodes elements [first, last), by logical index. @pre planes are dense
template <class S>
bool blpa_decode_elements_of(const cpu::BlpaJob& job, const std::byte* in, void* target,
                             std::int64_t first, std::int64_t last) {
  const PlaneLayout& layout = job.what.layout;
  const std::int64_t size = layout.plane_size();
  const bool contiguous = layout.is_contiguous();
  BlpaDecoder<S> decoder(job, in, true);
  if (!decoder.prepare()) return false;
  auto* const x = static_cast<typename S::Raw*>(target);
  for (std::int64_t k = first; k < last;) {
    const std::int64_t plane = k / size;
    const std::int64_t stop = contiguous ? last : std::min(last, (plane + 1) * size);
    const std::int64_t end = std::min(stop, k + cpu::kBlpaStretch);
    decoder.decode(k, end, x + (contiguous ? k : plane_offset(layout, plane) + k % size));
    k = end;
  }
  decoder.finish();
  return true;
}

/// Decodes planes [first, last) of a layout whose planes are not dense.
template <class S>
bool blpa_decode_planes_of(const cpu::BlpaJob& job, const std::byte* in, void* target,
                           std::int64_t first, std::int64_t last) {
  using Raw = typename S::Raw;
  const PlaneLayout& layout = job.what.layout;
  const std::int64_t size = layout.plane_size();
  const std::int64_t window = cpu::planes_per_window(layout, sizeof(Raw));
  BlpaDecoder<S> decoder(job, in, false);
  auto* const tile = cpu::workspace().tile.get<Raw>(window * size);
  if (tile == nullptr || !decoder.prepare()) return false;
  for (std::int64_t p = first; p < last; p += window) {
    const std::int64_t count = std::min(window, last - p);
    for (std::int64_t k = 0; k < count * size; k += cpu::kBlpaStretch) {
      const std::int64_t end = std::min(count * size, k + cpu::kBlpaStretch);
      decoder.decode(p * size + k, p * size + end, tile + k);
    }
    cpu::scatter_planes(layout, sizeof(Raw), tile, p, count, target);
  }
  return true;
}

/// Decodes elements [first, last), by logical index, if planes are dense; else planes.
/// @return false when memory ran out
bool blpa_decode(const cpu::BlpaJob& job, const std::byte* in, void* target, std::int64_t first,
                 std::int64_t last) {
  return with_element(job.what.type, [&](auto kind) {
    using S = decltype(kind);
    return has_dense_planes(job.what.layout)
               ? blpa_decode_elements_of<S>(job, in, target, first, last)
               : blpa_decode_planes_of<S>(job, in, target, first, last);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
