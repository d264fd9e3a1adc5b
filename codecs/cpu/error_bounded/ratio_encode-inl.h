// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_ENCODE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "codecs/cpu/error_bounded/bound-inl.h"
#include "codecs/cpu/error_bounded/ratio_chunk-inl.h"
#include "codecs/cpu/error_bounded/ratio_tables.h"
#include "codecs/formats/error_bounded/error_bounded_ratio.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Quantizes one element apart from the vectors: one that they don't hold, or that is left over.
template <class S>
HWY_NOINLINE void quantize_apart(const ErrorBound& bound, bool closes_gap, const std::byte* x,
                                 std::int64_t i, std::int32_t* codes, EscapeList& escapes) {
  typename S::Bits bits;
  std::memcpy(&bits, x + i * static_cast<std::int64_t>(sizeof bits), sizeof bits);
  const RatioCode code = ratio_code(bound, closes_gap, S::value(bits));
  codes[i] = code.code;
  if (code.escape == 0) return;
  escapes.list[escapes.count++] = {static_cast<std::uint32_t>(i),
                                   static_cast<std::uint32_t>(code.escape),
                                   code.escape == kEscapeRaw ? std::uint32_t{bits} : 0U};
}

template <class S, bool is_regular>
HWY_NOINLINE std::int64_t quantize_chunk_as(const ErrorBound& bound, bool closes_gap,
                                            const std::byte* HWY_RESTRICT x, std::int64_t count,
                                            std::int32_t* HWY_RESTRICT codes,
                                            RatioEscape* HWY_RESTRICT list) {
  const hn::CappedTag<float, 32> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto scale = hn::Set(df, bound.coarse.scale);
  const auto step = hn::Set(df, bound.coarse.step);
  const auto limit = hn::Set(df, bound.limit);
  const auto max_code = hn::Set(df, kMaxCode);
  // Smaller codes are not held: 1 if the gap is closed.
  const auto min_code = hn::Set(df, closes_gap ? 1.0F : 0.0F);
  const auto gap = hn::Set(di, closes_gap ? 1 : 0);
  const auto magic = hn::Set(df, 0x1p23F);
  const auto all = (std::uint64_t{1} << lanes) - 1;
  EscapeList escapes = {list, 0};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = S::load(df, reinterpret_cast<const typename S::Raw*>(x) + i);
    const auto magnitude = hn::Abs(value);
    const auto code = lanes_code<is_regular>(df, magnitude, scale);
    const auto near = lanes_are_near<S, is_regular>(df, magnitude, code, step, limit);
    const auto in_range = hn::And(hn::Le(code, max_code), hn::Ge(code, min_code));
    // The low bits of the sum are the integer.
    const auto whole = hn::And(hn::BitCast(di, hn::Add(code, magic)), hn::Set(di, 0x7FFFFF));
    const auto sign = hn::ShiftRight<31>(hn::BitCast(di, value));
    // Closing the gap subtracts 1 where x is positive: gap &  sign.
    const auto closed = hn::Sub(hn::Sub(hn::Xor(whole, sign), sign), hn::AndNot(sign, gap));
    hn::StoreU(closed, di, codes + i);
    std::uint64_t apart = all & ~std::uint64_t{bits_of_mask(df, hn::And(near, in_range))};
    for (; HWY_UNLIKELY(apart != 0); apart &= apart - 1) {
      quantize_apart<S>(bound, closes_gap, x, i + __builtin_ctzll(apart), codes, escapes);
    }
  }
  for (; i < count; ++i) quantize_apart<S>(bound, closes_gap, x, i, codes, escapes);
  return escapes.count;
}

/// Writes codes and escapes of `count` elements to arrays of `count`. @return the number of escapes
std::int64_t quantize_chunk(const ErrorBound& bound, bool closes_gap,
                            const std::byte* HWY_RESTRICT x, std::int64_t count,
                            std::int32_t* HWY_RESTRICT codes, RatioEscape* HWY_RESTRICT list) {
  return with_element(bound.type, [&](auto kind) {
    using S = decltype(kind);
    return bound.is_regular ? quantize_chunk_as<S, true>(bound, closes_gap, x, count, codes, list)
                            : quantize_chunk_as<S, false>(bound, closes_gap, x, count, codes, list);
  });
}

/// Lengths of a chunk's tokens. `table`: all are in the table, and any two fit into 57 bits;
/// `pairs`: any two fit into 57 bits; `any`: neither holds.
enum class Tokens { table, pairs, any };

inline HWY_NOINLINE Tokens tokens_of(const std::int32_t* HWY_RESTRICT differences,
                                     std::int64_t count) {
  const hn::CappedTag<std::int32_t, 32> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  auto vector = hn::Zero(di);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    vector = hn::Max(vector, hn::Abs(hn::LoadU(di, differences + i)));
  }
  std::int32_t largest = hn::GetLane(hn::MaxOfLanes(di, vector));
  for (; i < count; ++i) largest = std::max(largest, std::abs(differences[i]));
  if (largest < cpu::kTableMagnitude) return Tokens::table;
  return largest < 1 << 16 ? Tokens::pairs : Tokens::any;  // 15 + 12 bits each
}

/// Two tokens, the first in the lower bits.
HWY_INLINE cpu::Token join(cpu::Token first, cpu::Token second) {
  return {first.bits | second.bits << first.length, first.length + second.length};
}

/// Fills a stream from bit 0 up.
class TokenWriter {
 public:
  explicit TokenWriter(std::byte* out) : next_(out) {}

  /// Appends a token. At most 57 bits between two calls of `flush`, which leaves at most 7 waiting.
  HWY_INLINE void put(cpu::Token token) {
    waiting_ |= token.bits << count_;
    count_ += token.length;
  }
  HWY_INLINE void flush() {
    std::memcpy(next_, &waiting_, 8);
    next_ += count_ >> 3;
    waiting_ >>= count_ & ~7U;
    count_ &= 7U;
  }
  /// @return the end
  HWY_INLINE std::byte* finish() {
    flush();
    return next_ + (count_ != 0 ? 1 : 0);
  }

 private:
  std::byte* next_;
  std::uint64_t waiting_ = 0;
  unsigned count_ = 0;
};

template <Tokens kind>
HWY_INLINE cpu::Token value_token(const cpu::EncodeTables& tables, std::int32_t r) {
  if constexpr (kind == Tokens::table) return tables.differences[r + cpu::kTableMagnitude];
  return tables.value_token(r);
}

/// Writes an escape and its value. Takes and returns the writer, so that it can stay in registers.
HWY_NOINLINE TokenWriter put_escape(const cpu::EncodeTables& tables, const RatioEscape& escape,
                                    unsigned element_bits, std::int32_t r, TokenWriter writer) {
  writer.flush();
  const HuffmanCode code = tables.values[escape.symbol];
  writer.put({code.bits, code.length});
  if (escape.symbol == kEscapeRaw) writer.put({escape.bits, element_bits});
  writer.flush();
  writer.put(tables.value_token(r));
  writer.flush();
  return writer;
}

/// Writes elements [i, end), none of them escaped, without runs.
template <Tokens kind>
HWY_INLINE void put_all(const cpu::EncodeTables& tables, const std::int32_t* HWY_RESTRICT r,
                        std::int64_t i, std::int64_t end, TokenWriter& writer) {
  if constexpr (kind != Tokens::any) {
    for (; i + 2 <= end; i += 2) {
      writer.put(join(value_token<kind>(tables, r[i]), value_token<kind>(tables, r[i + 1])));
      writer.flush();
    }
  }
  for (; i < end; ++i) {
    writer.put(value_token<kind>(tables, r[i]));
    writer.flush();
  }
}

/// Writes elements [i, end), none of them escaped, with runs; `zeros` zeros precede them.
/// @return the number of zeros at the end, which are not written yet
template <Tokens kind>
HWY_INLINE std::int64_t put_runs(const cpu::EncodeTables& tables,
                                 const std::int32_t* HWY_RESTRICT r, std::int64_t i,
                                 std::int64_t end, std::int64_t zeros, TokenWriter& writer) {
  const hn::CappedTag<std::int32_t, 32> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  const auto put = [&](std::int64_t at) {
    const cpu::Token run = tables.run_lengths[at - i + zeros];
    if constexpr (kind == Tokens::any) {
      writer.put(run);
      writer.flush();
      writer.put(value_token<kind>(tables, r[at]));
    } else {
      writer.put(join(run, value_token<kind>(tables, r[at])));  // a run has at most 23 bits
    }
    writer.flush();
    i = at + 1;
    zeros = 0;
  };
  std::int64_t at = i;
  for (; at + lanes <= end; at += lanes) {
    std::uint32_t others = bits_of_mask(di, hn::Ne(hn::LoadU(di, r + at), hn::Zero(di)));
    for (; others != 0; others &= others - 1) put(at + __builtin_ctz(others));
  }
  for (; at < end; ++at) {
    if (r[at] != 0) put(at);
  }
  return end - i + zeros;
}

/// Writes one stream's elements [begin, end). Moves `escape`, its first, past its last.
/// @return the stream's end
template <Tokens kind>
HWY_NOINLINE std::byte* write_stream(const cpu::EncodeTables& tables, unsigned element_bits,
                                     const std::int32_t* HWY_RESTRICT r, std::int64_t begin,
                                     std::int64_t end, const RatioEscape*& escape,
                                     const RatioEscape* last_escape, std::byte* out) {
  TokenWriter writer(out);
  std::int64_t zeros = 0;
  for (std::int64_t i = begin; i < end;) {
    const bool escapes = escape != last_escape && escape->position < end;
    const std::int64_t stop = escapes ? escape->position : end;
    if (tables.runs) {
      zeros = put_runs<kind>(tables, r, i, stop, zeros, writer);
    } else {
      put_all<kind>(tables, r, i, stop, writer);
    }
    i = stop;
    if (escapes) {
      if (tables.runs) writer.put(tables.run_lengths[zeros]);
      zeros = 0;
      writer = put_escape(tables, *escape++, element_bits, r[i++], writer);
    }
  }
  if (zeros > 0) writer.put(tables.run_lengths[zeros]);
  return writer.finish();
}

/// Encodes a chunk's elements to `out`, which has room for them. @return the bytes written
std::int64_t encode_chunk(const ErrorBound& bound, const RatioPlan& plan,
                          const cpu::EncodeTables& tables, const RatioChunks::Chunk& chunk,
                          const std::byte* HWY_RESTRICT x, const cpu::RatioScratch& scratch,
                          std::byte* HWY_RESTRICT out) {
  const std::int64_t escapes =
      quantize_chunk(bound, plan.closes_gap, x, chunk.count, scratch.codes, scratch.escapes);
  for_each_predicted(plan.predictor, chunk, scratch.codes, subtract_before);
  const Tokens tokens = tokens_of(scratch.codes, chunk.count);
  const std::int64_t size = bound.type == ElementType::float32 ? 4 : 2;
  const RatioEscape* escape = scratch.escapes;
  const std::int64_t length = stream_elements(chunk.count);
  std::byte* next = scratch.streams;
  std::array<std::uint16_t, kChunkStreams> sizes;
  for (int s = 0; s < kChunkStreams; ++s) {
    const auto write = tokens == Tokens::table   ? write_stream<Tokens::table>
                       : tokens == Tokens::pairs ? write_stream<Tokens::pairs>
                                                 : write_stream<Tokens::any>;
    std::byte* const end = write(
        tables, static_cast<unsigned>(8 * size), scratch.codes, std::min(s * length, chunk.count),
        std::min((s + 1) * length, chunk.count), escape, scratch.escapes + escapes, next);
    sizes[s] = static_cast<std::uint16_t>(end - next);
    next = end;
  }
  const std::int64_t bytes = kChunkHeaderBytes + (next - scratch.streams);
  if (bytes >= chunk.count * size) {
    std::memcpy(out, x, chunk.count * size);
    return chunk.count * size;
  }
  std::memcpy(out, sizes.data(), kChunkHeaderBytes);
  std::memcpy(out + kChunkHeaderBytes, scratch.streams, bytes - kChunkHeaderBytes);
  return bytes;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
