// SPDX-License-Identifier: Apache-2.0
#include "codecs/exponent_pack.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>

#include "codecs/cpu/compaction.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/with_pattern.h"

namespace cinch::codecs {
namespace {

/// Intermediate forms of a block's elements. Loops round up to whole groups of eight.
template <typename T>
struct Scratch {
  std::array<T, kPackElements> held;
  std::array<std::uint8_t, kPackElements> tops;
  std::array<std::uint8_t, kPackElements> codes;
  std::array<std::uint64_t, kPackElements / 64> mask;
};

template <typename T>
std::uint8_t top_of(T x) noexcept {
  return static_cast<std::uint8_t>(rotate_left(x) >> (8 * (sizeof(T) - 1)));
}

/// Chooses the base and bits that hold the sample in the fewest bits.
template <typename T>
void choose_codes(const T* x, int count, PackBlock& block) noexcept {
  std::array<int, 257> below = {};  // how many are in [0, top)
  for (int stretch = 0; stretch * kPackStretch < count; ++stretch) {
    if (!is_sampled(stretch)) continue;
    const int end = std::min(count, (stretch + 1) * kPackStretch);
    for (int k = stretch * kPackStretch; k < end; ++k) {
      below[top_of(x[k]) + 1] += x[k] != 0 ? 1 : 0;
    }
  }
  for (int top = 0; top < 256; ++top) below[top + 1] += below[top];
  const int sampled = below[256];
  block.bits = 0;
  std::uint32_t least = pack_cost(0, sampled, 0);
  for (int bits = 1; bits <= kPackMaxBits; ++bits) {
    const int window = pack_window(bits);
    for (int base = 0; base + window <= 256; ++base) {
      const std::uint32_t cost = pack_cost(bits, sampled, below[base + window] - below[base]);
      if (cost >= least) continue;
      least = cost;
      block.bits = static_cast<std::uint8_t>(bits);
      block.base = static_cast<std::uint8_t>(base);
    }
  }
}

/// Copies the non-zero elements to scratch.held and marks them in the mask. @return their number
template <typename T>
int leave_zeros_out(const T* x, int count, Scratch<T>& scratch) noexcept {
  int held = 0;
  for (int begin = 0; begin < count; begin += 64) {
    const int end = std::min(count, begin + 64);
    std::uint64_t word = 0;
    for (int k = begin; k < end; ++k) {
      const bool is_held = x[k] != 0;
      word |= std::uint64_t{is_held} << (k - begin);
      scratch.held[held] = x[k];
      held += is_held ? 1 : 0;
    }
    scratch.mask[begin / 64] = word;
  }
  return held;
}

/// Calls f(k) for each escape among the first n codes. Most groups of eight have none.
template <typename F>
void for_each_escape(const std::uint8_t* codes, int n, std::uint8_t escape, const F& f) noexcept {
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  for (int begin = 0; begin < n; begin += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, codes + begin, 8);
    eight ^= kOnes * escape;  // a byte is 0 where its code is an escape
    if (((eight - kOnes) & ~eight & kOnes << 7) == 0) continue;
    for (int k = begin; k < std::min(n, begin + 8); ++k) {
      if (codes[k] == escape) f(k);
    }
  }
}

/// Sets the tops and codes of the n elements at `held`. @return the number of escapes
template <typename T>
int find_codes(const T* held, int n, std::uint8_t base, std::uint8_t escape,
               Scratch<T>& scratch) noexcept {
  int escapes = 0;
  for (int k = 0; k < n; ++k) scratch.tops[k] = top_of(held[k]);
  for (int k = 0; k < n; ++k) {
    // Tops below the base wrap around to beyond the window.
    const auto distance = static_cast<std::uint8_t>(scratch.tops[k] - base);
    scratch.codes[k] = distance < escape ? distance : escape;
    escapes += distance < escape ? 0 : 1;
  }
  return escapes;
}

/// Writes what the n elements at `held` have besides their tops: all parts of 4 bytes, then of 2,
/// then of 1.
template <typename T>
void write_rests(const T* held, int n, std::byte* out) noexcept {
  constexpr int kSize = sizeof(T);
  const auto write_part = [&]<typename P>(P*, int bit) {
    for (int k = 0; k < n; ++k) {
      const auto bits = static_cast<P>(rotate_left(held[k]) >> bit);
      std::memcpy(out + k * int{sizeof(P)}, &bits, sizeof(P));
    }
    out += n * int{sizeof(P)};
  };
  if constexpr (kSize == 8) write_part(static_cast<std::uint32_t*>(nullptr), 0);
  if constexpr (kSize >= 4) write_part(static_cast<std::uint16_t*>(nullptr), 8 * kSize - 32);
  write_part(static_cast<std::uint8_t*>(nullptr), 8 * kSize - 16);
}

/// Writes n codes of `bits` bits, and up to 7 bytes past them.
template <typename T>
void write_codes(Scratch<T>& scratch, int n, int bits, std::byte* out) noexcept {
  std::fill(scratch.codes.data() + n, scratch.codes.data() + (n + 7) / 8 * 8, 0);
  for (int k = 0; k < n; k += 8, out += bits) {
    std::uint64_t eight;
    std::memcpy(&eight, scratch.codes.data() + k, 8);
    const std::uint64_t joined = join_codes(eight, bits);
    std::memcpy(out, &joined, 8);
  }
}

/// Encodes a block to `out` and describes it; copies its elements if that is no larger. Writes at
/// most the elements' bytes, padded to a multiple of 8.
template <typename T>
PackBlock encode_block(const T* x, int count, Scratch<T>& scratch, std::byte* out) noexcept {
  constexpr int kSize = sizeof(T);
  PackBlock block;
  int zeros = 0;
  for (int k = 0; k < count; ++k) zeros += x[k] == 0 ? 1 : 0;
  block.form = leaves_zeros_out(zeros, count, kSize) ? PackForm::nonzeros : PackForm::packed;
  choose_codes(x, count, block);
  const T* held = x;
  int n = count;
  if (block.form == PackForm::nonzeros) {
    n = leave_zeros_out(x, count, scratch);
    held = scratch.held.data();
  }
  block.held = static_cast<std::uint16_t>(n);
  const auto escape = static_cast<std::uint8_t>(pack_window(block.bits));
  block.escapes = static_cast<std::uint16_t>(find_codes(held, n, block.base, escape, scratch));

  const PackSections packed(block, count, kSize);
  if (packed.size >= count * kSize) {
    block = {};
    const PackSections whole(block, count, kSize);
    std::memcpy(out, x, static_cast<std::size_t>(count) * kSize);
    std::memset(out + whole.end, 0, static_cast<std::size_t>(whole.size - whole.end));
    return block;
  }
  std::memcpy(out, scratch.mask.data(), static_cast<std::size_t>(packed.rests));
  write_rests(held, n, out + packed.rests);
  // Bytes past the codes are overwritten below; a block smaller than its elements has room.
  if (block.bits > 0) write_codes(scratch, n, block.bits, out + packed.codes);
  std::byte* next = out + packed.escapes;
  for_each_escape(scratch.codes.data(), n, escape,
                  [&](int k) { *next++ = static_cast<std::byte>(scratch.tops[k]); });
  std::memset(out + packed.end, 0, static_cast<std::size_t>(packed.size - packed.end));
  return block;
}

/// Decodes the held elements. @return false when the number of escapes contradicts the block's
template <typename T>
bool decode_held(const PackBlock& block, const PackSections& at, const std::byte* in,
                 Scratch<T>& scratch, T* held) noexcept {
  constexpr int kSize = sizeof(T);
  const int n = block.held;
  const auto escape = static_cast<std::uint8_t>(pack_window(block.bits));
  const std::byte* from = in + at.codes;
  int escapes = 0;
  for (int k = 0; k < n; k += 8, from += block.bits) {
    std::uint64_t joined = 0;
    if (from + 8 <= in + at.size) {
      std::memcpy(&joined, from, 8);
    } else {
      std::memcpy(&joined, from, static_cast<std::size_t>(bytes_of_codes(block, k)));
    }
    const std::uint64_t eight = part_codes(joined, block.bits);
    std::memcpy(scratch.codes.data() + k, &eight, 8);
  }
  for (int k = 0; k < n; ++k) {
    scratch.tops[k] = static_cast<std::uint8_t>(block.base + scratch.codes[k]);
    escapes += scratch.codes[k] == escape ? 1 : 0;
  }
  if (escapes != block.escapes) return false;
  const std::byte* next = in + at.escapes;
  for_each_escape(scratch.codes.data(), n, escape,
                  [&](int k) { scratch.tops[k] = std::to_integer<std::uint8_t>(*next++); });
  for (int k = 0; k < n; ++k) held[k] = static_cast<T>(T{scratch.tops[k]} << (8 * (kSize - 1)));
  const std::byte* part = in + at.rests;
  const auto read_part = [&]<typename P>(P*, int bit) {
    for (int k = 0; k < n; ++k) {
      P bits;
      std::memcpy(&bits, part + k * int{sizeof(P)}, sizeof(P));
      held[k] = static_cast<T>(held[k] | T{bits} << bit);
    }
    part += n * int{sizeof(P)};
  };
  if constexpr (kSize == 8) read_part(static_cast<std::uint32_t*>(nullptr), 0);
  if constexpr (kSize >= 4) read_part(static_cast<std::uint16_t*>(nullptr), 8 * kSize - 32);
  read_part(static_cast<std::uint8_t*>(nullptr), 8 * kSize - 16);
  for (int k = 0; k < n; ++k) held[k] = rotate_right(held[k]);
  return true;
}

template <typename T>
bool decode_block(const PackBlock& block, const std::byte* in, int count, Scratch<T>& scratch,
                  T* x) noexcept {
  const PackSections at(block, count, sizeof(T));
  if (block.form == PackForm::whole) {
    std::memcpy(x, in, static_cast<std::size_t>(count) * sizeof(T));
    return true;
  }
  if (block.form == PackForm::packed) return decode_held(block, at, in, scratch, x);
  std::memcpy(scratch.mask.data(), in, static_cast<std::size_t>(at.rests));
  if (count % 64 != 0) scratch.mask[count / 64] &= (std::uint64_t{1} << (count % 64)) - 1;
  int held = 0;
  for (int word = 0; word < (count + 63) / 64; ++word) {
    held += __builtin_popcountll(scratch.mask[word]);
  }
  if (held != block.held || !decode_held(block, at, in, scratch, scratch.held.data())) return false;
  const T* next = scratch.held.data();
  for (int begin = 0; begin < count; begin += 64) {
    const std::uint64_t word = scratch.mask[begin / 64];
    const int end = std::min(count, begin + 64);
    for (int k = begin; k < end; ++k) {
      const bool is_held = (word >> (k - begin) & 1U) != 0;
      x[k] = is_held ? *next : T{0};
      next += is_held ? 1 : 0;
    }
  }
  return true;
}

/// Calls `bool f(first, last, tile, scratch)` for ranges of blocks, in parallel. `tile` has room
/// for a block; null if the layout is contiguous. @return false if a call did, or if memory ran out
template <typename T, typename F>
bool for_ranges(const Description& what, ParallelFor parallel, const F& f) {
  constexpr std::int64_t kGrain = 8;
  const bool gather = !what.layout.is_contiguous();
  std::atomic<bool> good = true;
  for_range(parallel, PackLayout(what.layout.elements()).count, kGrain,
            [&](std::int64_t first, std::int64_t last) {
              cpu::Workspace& work = cpu::workspace();
              auto* const scratch = work.chunk.get<Scratch<T>>(1);
              T* const tile = gather ? work.tile.get<T>(kPackElements) : nullptr;
              const bool enough = scratch != nullptr && (!gather || tile != nullptr);
              if (!enough || !f(first, last, tile, *scratch)) good.store(false);
              work.trim();
            });
  return good.load();
}

int elements_of(const PlaneLayout& layout, std::int64_t block) noexcept {
  return static_cast<int>(std::min(kPackElements, layout.elements() - block * kPackElements));
}

/// Writes the blocks' sizes to the index, and a range's blocks one behind the other, starting where
/// the first would lie if all before it were whole (cpu/compaction.h).
template <typename T>
bool encode_blocks(const Description& what, const T* source, std::byte* out, ParallelFor parallel) {
  const PackLayout at(what.layout.elements());
  return for_ranges<T>(
      what, parallel, [&](std::int64_t first, std::int64_t last, T* tile, Scratch<T>& scratch) {
        std::byte* next = out + at.payload + first * kPackElements * std::int64_t{sizeof(T)};
        for (std::int64_t i = first; i < last; ++i) {
          const int count = elements_of(what.layout, i);
          const T* x = source + i * kPackElements;
          if (tile != nullptr) {
            cpu::gather_elements(what.layout, sizeof(T), source, i * kPackElements, count, tile);
            x = tile;
          }
          const PackBlock block = encode_block(x, count, scratch, next);
          const auto size = static_cast<std::uint64_t>(PackSections(block, count, sizeof(T)).size);
          const std::uint64_t entry = size | (i == first ? cpu::kTaskBegin : 0);
          std::memcpy(out + PackLayout::kIndex + 8 * i, &entry, 8);
          std::memcpy(out + at.blocks + 8 * i, &block, 8);
          next += size;
        }
        return true;
      });
}

class ExponentPackCpu final : public ExponentPackCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const PackLayout at(what.layout.elements());
    const bool good = with_float_pattern(element_size(what.type), [&]<typename T>(T*) {
      return encode_blocks(what, static_cast<const T*>(source), out.data(), parallel);
    });
    if (!good) return {};
    const std::int64_t room = kPackElements * std::int64_t(element_size(what.type));
    const std::int64_t size =
        at.payload + cpu::close_gaps(out.data() + at.payload, out.data() + PackLayout::kIndex,
                                     at.count, [room](std::int64_t i) { return i * room; });
    write_header(what, size, out.data());
    return {true, static_cast<std::size_t>(size)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    const std::int64_t size = read_header(what, in, reads);
    if (size < 0) return false;
    in = in.first(static_cast<std::size_t>(size));
    return with_float_pattern(element_size(what.type), [&]<typename T>(T*) {
      return for_ranges<T>(
          what, parallel, [&](std::int64_t first, std::int64_t last, T* tile, Scratch<T>& scratch) {
            for (std::int64_t i = first; i < last; ++i) {
              const int count = elements_of(what.layout, i);
              T* const x = tile != nullptr ? tile : static_cast<T*>(target) + i * kPackElements;
              PackBlock block;
              std::span<const std::byte> bytes;
              if (!find_block(what, in, i, block, bytes) ||
                  !decode_block(block, bytes.data(), count, scratch, x)) {
                return false;
              }
              if (tile == nullptr) continue;
              cpu::scatter_elements(what.layout, sizeof(T), tile, i * kPackElements, count, target);
            }
            return true;
          });
    });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_exponent_pack_cpu() {
  return std::make_shared<ExponentPackCpu>();
}

}  // namespace cinch::codecs
