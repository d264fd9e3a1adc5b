// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_DECODE_INL_H_
#undef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_DECODE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "codecs/cpu/error_bounded/bound-inl.h"
#include "codecs/cpu/error_bounded/ratio_chunk-inl.h"
#include "codecs/cpu/error_bounded/ratio_tables.h"
#include "codecs/formats/error_bounded/error_bounded_ratio.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where reading is in one of a chunk's streams.
struct StreamState {
  std::uint64_t position;  ///< in bits, from the streams' beginning
  std::uint64_t end;       ///< end of the stream, in bits
  std::int64_t element;    ///< next element to read
  std::int64_t last;       ///< one past the stream's elements
};

/// Reads tokens. In damaged streams it reads no further than their longest tokens would reach.
struct TokenReader {
  const cpu::DecodeTables& tables;
  const std::byte* HWY_RESTRICT streams;
  unsigned element_bits;
  std::int32_t* HWY_RESTRICT differences;
  EscapeList escapes;
  bool good = true;

  /// The bits from `position` on, at least 57.
  HWY_INLINE std::uint64_t peek(std::uint64_t position) const {
    std::uint64_t bits;
    std::memcpy(&bits, streams + (position >> 3), 8);
    return bits >> (position & 7);
  }

  /// Reads a value, perhaps with an escape before it. @return the position behind it
  HWY_NOINLINE std::uint64_t read_any_value(std::uint64_t position, std::int64_t element) {
    std::uint64_t bits = peek(position);
    cpu::Lookup entry = tables.values.find(bits);
    if (entry.kind() == cpu::Lookup::escape) {
      RatioEscape& escape = escapes.list[escapes.count++];
      escape = {static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(entry.base()), 0};
      position += entry.total();
      if (entry.base() == kEscapeRaw) {
        const std::uint64_t mask = (std::uint64_t{1} << element_bits) - 1;
        escape.bits = static_cast<std::uint32_t>(peek(position) & mask);
        position += element_bits;
      }
      bits = peek(position);
      entry = tables.values.find(bits);
      good = good && entry.kind() != cpu::Lookup::escape;
    }
    differences[element] = entry.number_in(bits);
    return position + entry.total();
  }

  /// Reads two values, perhaps with escapes. @return the position behind them
  HWY_INLINE std::uint64_t read_two_values(std::uint64_t position, std::int64_t element) {
    const std::uint64_t bits = peek(position);
    const cpu::Lookup one = tables.values.find_first(bits);
    const std::uint64_t rest = one.skip(bits);
    const cpu::Lookup two = tables.values.find_first(rest);
    if (HWY_UNLIKELY(!one.are_quick(two))) {
      return read_any_value(read_any_value(position, element), element + 1);
    }
    // One store: compilers' code for two neighbouring stores is slower.
    const std::uint64_t both = static_cast<std::uint32_t>(one.number_in(bits)) |
                               std::uint64_t{static_cast<std::uint32_t>(two.number_in(rest))} << 32;
    std::memcpy(differences + element, &both, sizeof both);
    return position + one.total(two);
  }

  /// Reads a run and, unless that ends the stream's elements, a value. @pre s.element < s.last
  HWY_INLINE void read_run(StreamState& s) {
    const std::uint64_t bits = peek(s.position);
    const cpu::Lookup run = tables.run_lengths.find_first(bits);
    const std::uint64_t rest = run.skip(bits);
    const cpu::Lookup value = tables.values.find_first(rest);
    const std::int64_t element = s.element + run.number_in(bits);
    if (HWY_LIKELY(run.are_quick(value) && element < s.last)) {
      differences[element] = value.number_in(rest);
      s.position += run.total(value);
      s.element = element + 1;
      return;
    }
    const cpu::Lookup any_run = tables.run_lengths.find(bits);
    s.element += any_run.number_in(bits);
    s.position += any_run.total();
    if (s.element >= s.last) {
      good = good && s.element == s.last;
      return;
    }
    s.position = read_any_value(s.position, s.element);
    ++s.element;
  }

  /// Reads all elements of all streams, in turns: while one stream waits for its table entry, the
  /// others can go on.
  HWY_NOINLINE void read_values(std::array<StreamState, kChunkStreams>& all) {
    auto [a, b, c, d] = all;
    for (; d.element + 2 <= d.last; d.element += 2) {  // the last stream is not longer than others
      a.position = read_two_values(a.position, a.element);
      b.position = read_two_values(b.position, b.element);
      c.position = read_two_values(c.position, c.element);
      d.position = read_two_values(d.position, d.element);
      a.element += 2;
      b.element += 2;
      c.element += 2;
    }
    all = {a, b, c, d};
    for (StreamState& s : all) {
      for (; s.element < s.last; ++s.element) {
        s.position = read_any_value(s.position, s.element);
      }
    }
  }

  HWY_NOINLINE void read_runs(std::array<StreamState, kChunkStreams>& all) {
    auto [a, b, c, d] = all;
    while (a.element < a.last && b.element < b.last && c.element < c.last && d.element < d.last) {
      read_run(a);
      read_run(b);
      read_run(c);
      read_run(d);
    }
    all = {a, b, c, d};
    for (StreamState& s : all) {
      while (s.element < s.last) read_run(s);
    }
  }

  /// @return false when the streams are damaged
  HWY_INLINE bool read(std::array<StreamState, kChunkStreams>& all) {
    if (tables.runs) {
      read_runs(all);
    } else {
      read_values(all);
    }
    for (const StreamState& s : all) good = good && s.position <= s.end;
    return good;
  }
};

/// Reads a coded chunk's differences and escapes. @return the number of escapes; -1 when `in` is
/// damaged
HWY_NOINLINE std::int64_t read_chunk(const cpu::DecodeTables& tables, std::int64_t count,
                                     std::int64_t element_size, std::span<const std::byte> in,
                                     const cpu::RatioScratch& scratch) {
  std::array<std::span<const std::byte>, kChunkStreams> found;
  if (static_cast<std::int64_t>(in.size()) > count * element_size || !find_streams(in, found)) {
    return -1;
  }
  // Copied to a larger buffer, so that reading past a damaged stream's end is safe.
  const std::byte* const first = found[0].data();
  std::memcpy(scratch.streams, first, in.size() - kChunkHeaderBytes);
  if (tables.runs) std::fill_n(scratch.codes, count, 0);

  const std::int64_t length = stream_elements(count);
  std::array<StreamState, kChunkStreams> states;
  for (int s = 0; s < kChunkStreams; ++s) {
    const auto begin = static_cast<std::uint64_t>(found[s].data() - first);
    states[s] = {8 * begin, 8 * (begin + found[s].size()), std::min(s * length, count),
                 std::min((s + 1) * length, count)};
  }
  TokenReader reader = {tables,
                        scratch.streams,
                        static_cast<unsigned>(8 * element_size),
                        scratch.codes,
                        {scratch.escapes, 0}};
  return reader.read(states) ? reader.escapes.count : -1;
}

/// Decodes `count` codes as if none were escaped.
template <class S>
HWY_NOINLINE void dequantize(const ErrorBound& bound, bool closes_gap,
                             const std::int32_t* HWY_RESTRICT codes, std::int64_t count,
                             std::byte* HWY_RESTRICT x) {
  const hn::CappedTag<float, 32> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto step = hn::Set(df, bound.coarse.step);
  const auto zero = hn::Zero(df);
  const auto gap = hn::Set(df, closes_gap ? 1.0F : 0.0F);
  const auto vector = [&](std::int64_t i, typename S::Raw* to) {
    auto code = hn::ConvertTo(df, hn::LoadU(di, codes + i));
    code = hn::Add(code, hn::IfThenElseZero(hn::Ge(code, zero), gap));
    const auto magnitude = hn::Abs(code);
    const auto value =
        hn::IfThenZeroElse(hn::Eq(magnitude, zero), lanes_point(df, magnitude, step));
    S::store(df, hn::Or(value, hn::And(code, hn::SignBit(df))), to);
  };
  auto* const elements = reinterpret_cast<typename S::Raw*>(x);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) vector(i, elements + i);
  if (i < count) {
    typename S::Raw rest[32];
    vector(i, rest);
    std::memcpy(elements + i, rest, (count - i) * sizeof *rest);
  }
}

template <class S>
HWY_NOINLINE void restore_escapes(const ErrorBound& bound, bool closes_gap,
                                  const std::int32_t* HWY_RESTRICT codes, const EscapeList& escapes,
                                  std::byte* HWY_RESTRICT x) {
  for (std::int64_t e = 0; e < escapes.count; ++e) {
    const RatioEscape& escape = escapes.list[e];
    auto bits = static_cast<typename S::Bits>(escape.bits);
    if (escape.symbol != kEscapeRaw) {
      bits = S::nearest(
          ratio_value(bound, closes_gap, codes[escape.position], static_cast<int>(escape.symbol)));
    }
    std::memcpy(x + escape.position * sizeof bits, &bits, sizeof bits);
  }
}

/// Decodes a chunk to `x`. @return false when `in` is damaged
bool decode_chunk(const ErrorBound& bound, const RatioPlan& plan, const cpu::DecodeTables& tables,
                  bool only_signs, const RatioChunks::Chunk& chunk, std::span<const std::byte> in,
                  const cpu::RatioScratch& scratch, std::byte* HWY_RESTRICT x) {
  return with_element(bound.type, [&](auto kind) {
    using S = decltype(kind);
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename S::Raw));
    if (static_cast<std::int64_t>(in.size()) == chunk.count * kSize) {
      std::memcpy(x, in.data(), in.size());
    } else {
      const std::int64_t escapes = read_chunk(tables, chunk.count, kSize, in, scratch);
      if (escapes < 0) return false;
      for_each_predicted(plan.predictor, chunk, scratch.codes, add_before);
      dequantize<S>(bound, plan.closes_gap, scratch.codes, chunk.count, x);
      restore_escapes<S>(bound, plan.closes_gap, scratch.codes, {scratch.escapes, escapes}, x);
    }
    if (only_signs) keep_signs<S>(x, chunk.count);
    return true;
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
