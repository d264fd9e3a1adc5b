// SPDX-License-Identifier: Apache-2.0
#include "codecs/float_split.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "codecs/float_split_chunk.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

bool get_bit(const std::byte* mask, std::int64_t k) noexcept {
  return (std::to_integer<unsigned>(mask[k / 8]) >> (k % 8) & 1U) != 0;
}

void find_nonzeros(std::size_t size, const void* x, std::int64_t n, std::byte* mask) {
  std::fill_n(mask, bytes_for_bits(n), std::byte{0});
  for (std::int64_t k = 0; k < n; ++k) {
    if (load_bits(x, k, size) != 0) mask[k / 8] |= std::byte{1} << k % 8;
  }
}

void pack_nonzeros(std::size_t size, const void* x, const std::byte* mask, std::int64_t n,
                   void* packed) {
  std::int64_t next = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    if (get_bit(mask, k)) store_bits(packed, next++, size, load_bits(x, k, size));
  }
}

void spread_nonzeros(std::size_t size, const void* packed, const std::byte* mask, std::int64_t n,
                     void* x) {
  std::int64_t next = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    store_bits(x, k, size, get_bit(mask, k) ? load_bits(packed, next++, size) : 0);
  }
}

void split(std::size_t size, const void* x, std::int64_t n, std::byte* planes) {
  const int bits = 8 * static_cast<int>(size);
  for (std::int64_t k = 0; k < n; ++k) {
    const std::uint64_t pattern = load_bits(x, k, size);
    const std::uint64_t rotated = pattern << 1 | pattern >> (bits - 1);
    for (int j = 0; j < static_cast<int>(size); ++j) {
      planes[j * kSplitPlaneStride + k] = static_cast<std::byte>(rotated >> (bits - 8 * (j + 1)));
    }
  }
}

void merge(std::size_t size, const std::byte* const* planes, std::int64_t n, void* x) {
  const int bits = 8 * static_cast<int>(size);
  for (std::int64_t k = 0; k < n; ++k) {
    std::uint64_t rotated = 0;
    for (std::size_t j = 0; j < size; ++j) {
      rotated = rotated << 8 | std::to_integer<std::uint64_t>(planes[j][k]);
    }
    store_bits(x, k, size, rotated >> 1 | rotated << (bits - 1));
  }
}

constexpr SplitKernels kKernels = {find_nonzeros, pack_nonzeros, spread_nonzeros, split, merge};

class FloatSplitReference final : public FloatSplitCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override try {
    const std::size_t size = element_size(what.type);
    std::vector<std::byte> memory(SplitScratch::bytes(size));
    std::vector<std::uint64_t> x(kSplitChunk * size / 8);
    write_header(what.type, out.data());
    std::byte* const bodies = out.data() + bodies_offset(what.layout);
    std::uint64_t end = 0;
    for (std::int64_t i = 0; i < chunk_count(what.layout); ++i) {
      const std::int64_t begin = i * kSplitChunk;
      const std::int64_t n = std::min(kSplitChunk, what.layout.elements() - begin);
      for (std::int64_t k = 0; k < n; ++k) {
        store_bits(x.data(), k, size, load_bits(source, offset_of(what.layout, begin + k), size));
      }
      end += encode_split_chunk(kKernels, size, x.data(), n, bodies + end,
                                SplitScratch(memory.data(), size));
      std::memcpy(out.data() + kSplitHeaderBytes + 8 * i, &end, 8);
    }
    return {true, static_cast<std::size_t>(bodies_offset(what.layout)) + end};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    if (!can_decode(what, in, reads)) return false;
    const std::size_t size = element_size(what.type);
    std::vector<std::byte> memory(SplitScratch::bytes(size));
    std::vector<std::uint64_t> x(kSplitChunk * size / 8);
    for (std::int64_t i = 0; i < chunk_count(what.layout); ++i) {
      const std::int64_t begin = i * kSplitChunk;
      const std::int64_t n = std::min(kSplitChunk, what.layout.elements() - begin);
      if (!decode_split_chunk(kKernels, size, chunk_bytes(what.layout, in, i), n, x.data(),
                              SplitScratch(memory.data(), size))) {
        return false;
      }
      for (std::int64_t k = 0; k < n; ++k) {
        store_bits(target, offset_of(what.layout, begin + k), size, load_bits(x.data(), k, size));
      }
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_float_split_reference() {
  return std::make_shared<FloatSplitReference>();
}

}  // namespace cinch::codecs
