// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_INL_H_
#undef CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_INL_H_
#else
#define CINCH_CODECS_CPU_ERROR_BOUNDED_RATIO_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "codecs/cpu/error_bounded/bound-inl.h"
#include "codecs/cpu/error_bounded/ratio_tables.h"
#include "codecs/error_bounded_ratio.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ------------------------------ Encoding

/// A chunk's escapes.
struct EscapeList {
  RatioEscape* HWY_RESTRICT list;
  std::int64_t count;
};

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

/// Subtracts from each of `size` codes the one `stride` before it; the first `stride` stay.
inline void subtract_before(std::int32_t* codes, std::int64_t size, std::int64_t stride) {
  const hn::ScalableTag<std::int32_t> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  std::int64_t i = size;
  for (; i - lanes >= stride; i -= lanes) {
    const auto before = hn::LoadU(di, codes + i - lanes - stride);
    hn::StoreU(hn::Sub(hn::LoadU(di, codes + i - lanes), before), di, codes + i - lanes);
  }
  for (; i > stride; --i) codes[i - 1] -= codes[i - 1 - stride];
}

/// The inverse of subtract_before. Wraps around on overflow, which damaged data may cause.
inline void add_before(std::int32_t* codes, std::int64_t size, std::int64_t stride) {
  const hn::ScalableTag<std::int32_t> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
  std::int64_t i = stride;
  if (stride == 1) {
    std::uint32_t sum = static_cast<std::uint32_t>(codes[0]);
    for (; i < size; ++i) {
      sum += static_cast<std::uint32_t>(codes[i]);
      codes[i] = static_cast<std::int32_t>(sum);
    }
    return;
  }
  for (; stride >= lanes && i + lanes <= size; i += lanes) {
    const auto before = hn::LoadU(di, codes + i - stride);
    hn::StoreU(hn::Add(hn::LoadU(di, codes + i), before), di, codes + i);
  }
  for (; i < size; ++i) {
    codes[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(codes[i]) +
                                         static_cast<std::uint32_t>(codes[i - stride]));
  }
}

/// Calls f(codes, size, stride) for all boxes whose outermost axis a prediction runs along.
template <class F>
HWY_INLINE void for_each_predicted(Predictor predictor, const RatioChunks::Chunk& chunk,
                                   std::int32_t* codes, const F& f) {
  std::int64_t stride = 1;
  for (int axis = 3; axis >= 0; --axis) {
    const std::int64_t size = stride * chunk.extent[axis];
    if (predictor == (axis == 0 ? Predictor::plane : Predictor::lorenzo) &&
        chunk.extent[axis] > 1) {
      for (std::int64_t begin = 0; begin < chunk.count; begin += size) {
        f(codes + begin, size, stride);
      }
    }
    stride = size;
  }
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

// ------------------------------ Decoding

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
