// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/error_bounded/error_bounded_ratio.h"

#include <cstring>
#include <limits>
#include <utility>

#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

constexpr unsigned kFlagRuns = 1;
constexpr unsigned kFlagClosedGap = 2;

/// The lines of a box along one axis: `outer` boxes of `length` times `stride` elements.
struct Lines {
  std::int64_t outer = 1;
  std::int64_t length;
  std::int64_t stride = 1;

  Lines(const std::array<std::int64_t, 4>& extent, int axis) : length(extent[axis]) {
    for (int i = 0; i < axis; ++i) outer *= extent[i];
    for (int i = axis + 1; i < 4; ++i) stride *= extent[i];
  }
};

/// Replaces elements by differences along one axis; the first of each line stays.
void differentiate(const Lines& lines, std::span<std::int32_t> codes) noexcept {
  const std::int64_t size = lines.length * lines.stride;
  for (std::int64_t o = 0; o < lines.outer; ++o) {
    std::int32_t* const box = codes.data() + o * size;
    for (std::int64_t i = size - 1; i >= lines.stride; --i) box[i] -= box[i - lines.stride];
  }
}

/// How often each symbol occurs with runs.
class Histogram {
 public:
  void run(std::uint32_t length) {
    ++run_lengths_[bucket_of(length)];
    zeros_ += length;
  }
  void escape(const RatioEscape& escape) { ++values_[escape.symbol]; }
  void value(std::int32_t r) {
    // Nearly all values: counted one by one here, and sorted into buckets once.
    const auto index = static_cast<std::uint32_t>(r + kSmall);
    if (index < small_.size()) {
      ++small_[index];
    } else {
      ++values_[value_symbol(r)];
    }
  }
  void end_stream() {}

  /// Zeros in runs.
  std::uint64_t zeros() const noexcept { return zeros_; }
  const std::array<std::uint64_t, kRunSymbols>& run_lengths() const noexcept {
    return run_lengths_;
  }
  std::array<std::uint64_t, kValueSymbols> values() const {
    std::array<std::uint64_t, kValueSymbols> all = values_;
    for (std::int32_t r = -kSmall; r < kSmall; ++r) all[value_symbol(r)] += small_[r + kSmall];
    return all;
  }

 private:
  static constexpr std::int32_t kSmall = 1024;
  std::array<std::uint32_t, 2 * kSmall> small_ = {};
  std::array<std::uint64_t, kValueSymbols> values_ = {};
  std::array<std::uint64_t, kRunSymbols> run_lengths_ = {};
  std::uint64_t zeros_ = 0;
};

/// Makes a code for these counts; symbols that never occur get long code words.
/// @param further further(i) is how many further bits follow symbol i
/// @return bits of all symbols, of their further bits, and of the written lengths
template <std::size_t n, typename F>
std::uint64_t make_book(const std::array<std::uint64_t, n>& counts, const F& further,
                        std::array<std::uint8_t, n>& lengths) {
  std::array<std::uint64_t, n> weights;
  for (std::size_t i = 0; i < n; ++i) weights[i] = 32 * counts[i] + 1;
  make_code_lengths(weights, lengths);
  std::array<std::byte, n> written;
  std::uint64_t bits = 8 * write_code_lengths(lengths, written);
  for (std::size_t i = 0; i < n; ++i) {
    bits += counts[i] * static_cast<std::uint64_t>(lengths[i] + further(static_cast<int>(i)));
  }
  return bits;
}

std::uint64_t make_value_book(const std::array<std::uint64_t, kValueSymbols>& counts,
                              RatioPlan& plan) {
  // An escape's further bits are not counted: they don't depend on the plan.
  const auto further = [](int symbol) {
    return symbol < kEscapeRaw ? bucket_bits(bucket_of_symbol(symbol)) : 0;
  };
  return make_book(counts, further, plan.value_lengths);
}

}  // namespace

RatioChunks::RatioChunks(const PlaneLayout& layout) noexcept
    : extent_{layout.planes(), layout.extent[0], layout.extent[1], layout.extent[2]},
      axis_(3),
      inner_(1) {
  while (axis_ > 0 && inner_ * extent_[axis_] <= kChunkElements) inner_ *= extent_[axis_--];
  step_ = std::min(kChunkElements / inner_, std::max<std::int64_t>(1, extent_[axis_]));
  along_ = (extent_[axis_] + step_ - 1) / step_;
  outer_ = 1;
  for (int i = 0; i < axis_; ++i) outer_ *= extent_[i];
}

std::int64_t RatioChunks::of_plane(std::int64_t plane) const noexcept {
  if (axis_ == 0) return (plane + step_ - 1) / step_;
  std::int64_t chunks = along_;
  for (int i = 1; i < axis_; ++i) chunks *= extent_[i];
  return plane * chunks;
}

std::int64_t sampled_chunk(std::int64_t chunks, std::int64_t i) noexcept {
  if (chunks <= kSampleChunks) return i;
  const auto within = static_cast<std::uint32_t>(i) * 0x9E3779B9U;
  return static_cast<std::int64_t>(
      (static_cast<unsigned __int128>(static_cast<std::uint64_t>(i) << 32 | within) *
       static_cast<std::uint64_t>(chunks)) /
      (static_cast<std::uint64_t>(kSampleChunks) << 32));
}

void apply_prediction(Predictor predictor, const RatioChunks::Chunk& chunk,
                      std::span<std::int32_t> codes) noexcept {
  if (predictor == Predictor::plane) differentiate(Lines(chunk.extent, 0), codes);
  if (predictor != Predictor::lorenzo) return;
  for (int axis = 1; axis < 4; ++axis) differentiate(Lines(chunk.extent, axis), codes);
}

RatioPlan RatioPlan::make(std::span<const RatioChunks::Chunk> sample, std::span<RatioCodes> codes) {
  RatioPlan best;
  best.closes_gap = true;
  for (const RatioCodes& chunk : codes) {
    auto escape = chunk.escapes.begin();
    for (std::size_t i = 0; i < chunk.codes.size(); ++i) {
      const bool escaped = escape != chunk.escapes.end() && escape->position == i;
      if (escaped) ++escape;
      if (!escaped && chunk.codes[i] == 0) best.closes_gap = false;
    }
  }
  if (best.closes_gap) {
    for (RatioCodes& chunk : codes) {
      for (std::int32_t& code : chunk.codes) code -= code > 0 ? 1 : 0;
    }
  }

  auto least = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::int32_t> differences;
  const auto consider = [&](const RatioPlan& plan, std::uint64_t bits) {
    if (bits < least) best = plan;
    least = std::min(least, bits);
  };
  for (const Predictor predictor : {Predictor::none, Predictor::lorenzo, Predictor::plane}) {
    Histogram histogram;
    for (std::size_t c = 0; c < codes.size(); ++c) {
      differences = codes[c].codes;
      apply_prediction(predictor, sample[c], differences);
      for_each_token(differences, codes[c].escapes, true, histogram);
    }
    std::array<std::uint64_t, kValueSymbols> values = histogram.values();
    RatioPlan runs = {predictor, true, best.closes_gap, {}, {}};
    const std::uint64_t bits = make_value_book(values, runs) +
                               make_book(histogram.run_lengths(), bucket_bits, runs.run_lengths);
    values[0] += histogram.zeros();
    RatioPlan plain = {predictor, false, best.closes_gap, {}, {}};
    consider(plain, make_value_book(values, plain));
    consider(runs, bits);
  }
  return best;
}

void RatioHeader::write(std::byte* out) noexcept {
  std::byte* const books = out + kBooks;
  std::size_t bytes = write_code_lengths(plan.value_lengths, {books, kValueSymbols});
  if (plan.runs) bytes += write_code_lengths(plan.run_lengths, {books + bytes, kRunSymbols});
  index = kBooks + (static_cast<std::int64_t>(bytes) + 7) / 8 * 8;
  std::fill(books + bytes, out + index, std::byte{0});

  std::memset(out, 0, kBooks);
  out[0] = std::byte{kRatioVersion};
  out[1] = static_cast<std::byte>(type);
  out[2] = static_cast<std::byte>(plan.predictor);
  out[3] =
      static_cast<std::byte>((plan.runs ? kFlagRuns : 0) | (plan.closes_gap ? kFlagClosedGap : 0));
  std::memcpy(out + 4, &bound, 4);
  std::memcpy(out + 8, &elements, 8);
  const auto book_bytes = static_cast<std::uint32_t>(bytes);
  std::memcpy(out + 24, &book_bytes, 4);
}

void RatioHeader::write_size(std::byte* out, std::int64_t bytes) noexcept {
  size = bytes;
  std::memcpy(out + 16, &size, 8);
}

bool RatioHeader::read(std::span<const std::byte> in, const Description& what,
                       std::int64_t chunks) noexcept {
  if (in.size() < kBooks) return false;
  std::uint32_t book_bytes, rest;
  std::memcpy(&bound, in.data() + 4, 4);
  std::memcpy(&elements, in.data() + 8, 8);
  std::memcpy(&size, in.data() + 16, 8);
  std::memcpy(&book_bytes, in.data() + 24, 4);
  std::memcpy(&rest, in.data() + 28, 4);
  const auto predictor = std::to_integer<unsigned>(in[2]);
  const auto flags = std::to_integer<unsigned>(in[3]);
  type = what.type;
  if (in[0] != std::byte{kRatioVersion} || in[1] != static_cast<std::byte>(type) ||
      predictor > static_cast<unsigned>(Predictor::plane) || flags > (kFlagRuns | kFlagClosedGap) ||
      rest != 0) {
    return false;
  }
  if (!(bound > 0.0F) || !std::isfinite(bound)) return false;
  if (elements != what.layout.elements() || book_bytes > kMaxBookBytes) return false;
  index = kBooks + (static_cast<std::int64_t>(book_bytes) + 7) / 8 * 8;
  if (size < index + 8 * chunks || static_cast<std::uint64_t>(size) > in.size()) return false;

  plan.predictor = static_cast<Predictor>(predictor);
  plan.runs = (flags & kFlagRuns) != 0;
  plan.closes_gap = (flags & kFlagClosedGap) != 0;
  std::span<const std::byte> books = in.subspan(kBooks, book_bytes);
  const auto take = [&](std::span<std::uint8_t> lengths) {
    const std::optional<std::size_t> bytes = read_code_lengths(books, lengths);
    if (bytes) books = books.subspan(*bytes);
    return bytes.has_value();
  };
  return take(plan.value_lengths) && (!plan.runs || take(plan.run_lengths)) && books.empty();
}

bool find_chunk(std::span<const std::byte> in, const RatioHeader& header, std::int64_t chunks,
                std::int64_t index, std::span<const std::byte>& found) noexcept {
  const auto payload = in.first(header.size).subspan(header.index + 8 * chunks);
  std::uint64_t begin;
  std::uint64_t end = payload.size();
  std::memcpy(&begin, in.data() + header.index + 8 * index, 8);
  if (index + 1 < chunks) std::memcpy(&end, in.data() + header.index + 8 * (index + 1), 8);
  if (begin > end || end > payload.size()) return false;
  found = payload.subspan(begin, end - begin);
  return true;
}

bool find_streams(std::span<const std::byte> chunk,
                  std::array<std::span<const std::byte>, kChunkStreams>& streams) noexcept {
  if (chunk.size() < kChunkHeaderBytes) return false;
  const std::byte* const sizes = chunk.data();
  chunk = chunk.subspan(kChunkHeaderBytes);
  for (int s = 0; s < kChunkStreams; ++s) {
    std::size_t size = chunk.size();
    if (s + 1 < kChunkStreams) {
      std::uint16_t stated;
      std::memcpy(&stated, sizes + 2 * s, 2);
      if (stated > size) return false;
      size = stated;
    }
    streams[s] = chunk.first(size);
    chunk = chunk.subspan(size);
  }
  return true;
}

bool ErrorBoundedRatioCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout);
}

std::size_t ErrorBoundedRatioCodec::encoded_bytes(const Description& what) const noexcept {
  return static_cast<std::size_t>(
      RatioHeader::kBooks + RatioHeader::kMaxBookBytes + 8 * RatioChunks(what.layout).count() +
      what.layout.elements() * static_cast<std::int64_t>(element_size(what.type)));
}

RatioPlan ErrorBoundedRatioCodec::make_plan(const Description& what, const void* source) const {
  const RatioChunks all(what.layout);
  std::vector<RatioChunks::Chunk> chunks;
  std::vector<RatioCodes> codes;
  for (std::int64_t i = 0; i < std::min(all.count(), kSampleChunks); ++i) {
    chunks.push_back(all[sampled_chunk(all.count(), i)]);
    codes.push_back(sample(what, source, chunks.back()));
  }
  return RatioPlan::make(chunks, codes);
}

std::shared_ptr<const RatioPlan> ErrorBoundedRatioCodec::plan_for(const Description& what,
                                                                  const void* source) const {
  if (what.layout.elements() == 0) {
    return std::make_shared<const RatioPlan>(RatioPlan::make({}, {}));
  }
  const std::lock_guard lock(mutex_);
  if (plan_ == nullptr || uses_ == refresh_) {
    plan_ = std::make_shared<const RatioPlan>(make_plan(what, source));
    uses_ = 0;
    bytes_per_element_ = 0.0;
  }
  ++uses_;
  return plan_;
}

void ErrorBoundedRatioCodec::report(const std::shared_ptr<const RatioPlan>& plan,
                                    std::int64_t elements, std::int64_t bytes) const {
  if (elements == 0) return;
  const double now = static_cast<double>(bytes) / static_cast<double>(elements);
  const std::lock_guard lock(mutex_);
  if (plan != plan_) return;
  if (bytes_per_element_ == 0.0) bytes_per_element_ = now;
  if (now > 1.25 * bytes_per_element_) plan_ = nullptr;
}

}  // namespace cinch::codecs
