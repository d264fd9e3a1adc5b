// SPDX-License-Identifier: Apache-2.0
#include "codecs/float_split_chunk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "codecs/float_split_zstd.h"

namespace cinch::codecs {
namespace {

constexpr std::size_t kMaxSplitPlanes = 8;
constexpr std::int64_t kMaskBytes = kSplitChunk / 8;

std::int64_t set_bits(const std::byte* mask, std::int64_t n) noexcept {
  std::int64_t count = 0;
  std::int64_t i = 0;
  const std::int64_t bytes = bytes_for_bits(n);
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, mask + i, 8);
    count += std::popcount(word);
  }
  for (; i < bytes; ++i) count += std::popcount(std::to_integer<std::uint8_t>(mask[i]));
  return count;
}

/// What is to be done with a chunk, by its sample.
struct Choice {
  bool drop_zeros = false;
  std::array<bool, kMaxSplitPlanes> compress = {};
};

Choice choose(const SplitKernels& kernels, std::size_t size, const std::byte* x, std::int64_t n,
              SplitScratch scratch) noexcept {
  const auto width = static_cast<std::int64_t>(size);
  std::int64_t m = std::min(n, kSplitSample);
  std::byte* sample = scratch.packed;
  if (n <= kSplitSample) {
    std::memcpy(sample, x, n * width);
  } else {
    constexpr std::int64_t kStretch = kSplitSample / 4;
    for (std::int64_t k = 0; k < 4; ++k) {
      std::memcpy(sample + k * kStretch * width, x + k * (n / 4) * width, kStretch * width);
    }
  }

  Choice choice;
  kernels.find_nonzeros(size, sample, m, scratch.mask);
  const std::int64_t nonzeros = set_bits(scratch.mask, m);
  choice.drop_zeros = 8 * (m - nonzeros) * (width - 1) > m;
  if (choice.drop_zeros) {
    std::byte* const packed = sample + kSplitSample * width + kSplitSlack;
    kernels.pack_nonzeros(size, sample, scratch.mask, m, packed);
    sample = packed;
    m = nonzeros;
  }
  kernels.split(size, sample, m, scratch.planes);
  std::array<std::byte, kSplitSample> room;
  for (std::size_t j = 0; j < size; ++j) {
    const std::span<const std::byte> plane(scratch.planes + j * kSplitPlaneStride, m);
    choice.compress[j] = m == 0 || zstd_compress(plane, std::span(room).first(m - m / 16)) != 0;
  }
  return choice;
}

/// A chunk's sections on their way out.
class SectionWriter {
 public:
  SectionWriter(std::byte* out, std::int64_t limit, std::int64_t sections) noexcept
      : lengths_(out), next_(out + 4 * sections), end_(out + limit) {}

  /// @return false when the section does not fit
  bool put(const std::byte* bytes, std::int64_t length, bool compress) noexcept {
    if (compress) {
      const std::int64_t room = std::min<std::int64_t>(length - length / 32, end_ - next_);
      const std::size_t written = room <= 0
                                      ? 0
                                      : zstd_compress({bytes, static_cast<std::size_t>(length)},
                                                      {next_, static_cast<std::size_t>(room)});
      if (written != 0) {
        advance(static_cast<std::int64_t>(written), kSplitCompressed);
        return true;
      }
    }
    if (end_ - next_ < length) return false;
    std::memcpy(next_, bytes, length);
    advance(length, 0);
    return true;
  }

  std::byte* next() const noexcept { return next_; }

 private:
  void advance(std::int64_t length, std::uint32_t flag) noexcept {
    const std::uint32_t word = static_cast<std::uint32_t>(length) | flag;
    std::memcpy(lengths_, &word, 4);
    lengths_ += 4;
    next_ += length;
  }

  std::byte* lengths_;
  std::byte* next_;
  std::byte* end_;
};

/// A chunk's sections on their way in.
class SectionReader {
 public:
  /// @pre `in` has 4 bytes for each section
  SectionReader(std::span<const std::byte> in, std::int64_t sections) noexcept
      : lengths_(in.data()), rest_(in.subspan(4 * sections)) {}

  /// Where the next section's `length` bytes are: in the input, or decompressed to `room`; null
  /// when it has not as many.
  const std::byte* get(std::int64_t length, std::byte* room) noexcept {
    std::uint32_t word;
    std::memcpy(&word, lengths_, 4);
    lengths_ += 4;
    const std::size_t held = word & ~kSplitCompressed;
    if (held > rest_.size()) return nullptr;
    const std::span<const std::byte> section = rest_.first(held);
    rest_ = rest_.subspan(held);
    if ((word & kSplitCompressed) == 0) {
      return held == static_cast<std::size_t>(length) ? section.data() : nullptr;
    }
    return zstd_decompress(section, {room, static_cast<std::size_t>(length)}) ? room : nullptr;
  }

  bool at_end() const noexcept { return rest_.empty(); }

 private:
  const std::byte* lengths_;
  std::span<const std::byte> rest_;
};

void write_form(SplitForm form, std::byte* out) noexcept {
  std::memset(out, 0, kSplitChunkHeaderBytes);
  out[0] = static_cast<std::byte>(form);
}

}  // namespace

std::int64_t SplitScratch::bytes(std::size_t size) noexcept {
  const auto width = static_cast<std::int64_t>(size);
  return kSplitChunk * width + kSplitSlack + kMaskBytes + kSplitSlack + width * kSplitPlaneStride;
}

SplitScratch::SplitScratch(std::byte* memory, std::size_t size) noexcept
    : packed(memory),
      mask(packed + kSplitChunk * static_cast<std::int64_t>(size) + kSplitSlack),
      planes(mask + kMaskBytes + kSplitSlack) {}

std::int64_t encode_split_chunk(const SplitKernels& kernels, std::size_t size, const void* x,
                                std::int64_t n, std::byte* out, SplitScratch scratch) noexcept {
  const std::int64_t most = split_chunk_bytes(size, n);
  const auto whole = [&] {
    write_form(SplitForm::whole, out);
    std::memcpy(out + kSplitChunkHeaderBytes, x, n * static_cast<std::int64_t>(size));
    return most;
  };
  const Choice choice = choose(kernels, size, static_cast<const std::byte*>(x), n, scratch);
  const bool some = std::ranges::find(choice.compress, true) != choice.compress.end();
  if (!choice.drop_zeros && !some) return whole();

  const std::int64_t sections = static_cast<std::int64_t>(size) + (choice.drop_zeros ? 1 : 0);
  if (most < kSplitChunkHeaderBytes + 4 * sections) return whole();
  write_form(choice.drop_zeros ? SplitForm::nonzero_planes : SplitForm::planes, out);
  // One byte less than `whole` would take.
  SectionWriter writer(out + kSplitChunkHeaderBytes, most - kSplitChunkHeaderBytes - 1, sections);
  std::int64_t count = n;
  if (choice.drop_zeros) {
    kernels.find_nonzeros(size, x, n, scratch.mask);
    if (!writer.put(scratch.mask, bytes_for_bits(n), true)) return whole();
    count = set_bits(scratch.mask, n);
    kernels.pack_nonzeros(size, x, scratch.mask, n, scratch.packed);
  }
  kernels.split(size, choice.drop_zeros ? scratch.packed : x, count, scratch.planes);
  for (std::size_t j = 0; j < size; ++j) {
    if (!writer.put(scratch.planes + j * kSplitPlaneStride, count, choice.compress[j])) {
      return whole();
    }
  }
  return writer.next() - out;
}

bool decode_split_chunk(const SplitKernels& kernels, std::size_t size,
                        std::span<const std::byte> in, std::int64_t n, void* x,
                        SplitScratch scratch) noexcept {
  if (in.size() < kSplitChunkHeaderBytes) return false;
  const auto form = static_cast<SplitForm>(in[0]);
  in = in.subspan(kSplitChunkHeaderBytes);
  if (form == SplitForm::whole) {
    if (in.size() != static_cast<std::size_t>(n) * size) return false;
    std::memcpy(x, in.data(), in.size());
    return true;
  }
  if (form != SplitForm::planes && form != SplitForm::nonzero_planes) return false;
  const bool zeros = form == SplitForm::nonzero_planes;
  const std::size_t sections = size + (zeros ? 1 : 0);
  if (in.size() < 4 * sections) return false;
  SectionReader reader(in, static_cast<std::int64_t>(sections));
  std::int64_t count = n;
  if (zeros) {
    const std::int64_t bytes = bytes_for_bits(n);
    const std::byte* const mask = reader.get(bytes, scratch.mask);
    if (mask == nullptr) return false;
    if (mask != scratch.mask) std::memcpy(scratch.mask, mask, bytes);
    if (n % 8 != 0 && std::to_integer<unsigned>(mask[bytes - 1]) >> n % 8 != 0) return false;
    count = set_bits(mask, n);
  }
  std::array<const std::byte*, kMaxSplitPlanes> planes;
  for (std::size_t j = 0; j < size; ++j) {
    planes[j] = reader.get(count, scratch.planes + j * kSplitPlaneStride);
    if (planes[j] == nullptr) return false;
  }
  if (!reader.at_end()) return false;
  kernels.merge(size, planes.data(), count, zeros ? scratch.packed : x);
  if (zeros) kernels.spread_nonzeros(size, scratch.packed, scratch.mask, n, x);
  return true;
}

}  // namespace cinch::codecs
