// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/exponent_pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "codecs/reference/elements.h"
#include "codecs/with_pattern.h"

namespace cinch::codecs {
namespace {

using namespace reference;

/// A block's elements, their signs lowered; `count` of them are in use.
struct Elements {
  std::array<std::uint64_t, kPackElements> of;
  int count;
  int size;  ///< bytes of one element

  unsigned top(int k) const { return static_cast<unsigned>(of[k] >> (8 * (size - 1))); }
  bool is_zero(int k) const { return of[k] == 0; }
};

std::uint64_t lowered_sign(std::uint64_t bits, int size) {
  return with_float_pattern(static_cast<std::size_t>(size), [bits]<typename T>(T*) {
    return std::uint64_t{lower_sign(static_cast<T>(bits))};
  });
}

std::uint64_t raised_sign(std::uint64_t bits, int size) {
  return with_float_pattern(static_cast<std::size_t>(size), [bits]<typename T>(T*) {
    return std::uint64_t{raise_sign(static_cast<T>(bits))};
  });
}

/// Whether the lower half of all elements' bits is 0.
bool has_zero_halves(const Elements& x) {
  if (!can_be_halved(x.size)) return false;
  const std::uint64_t lower = (std::uint64_t{1} << (4 * x.size)) - 1;
  return std::all_of(x.of.begin(), x.of.begin() + x.count,
                     [lower](std::uint64_t bits) { return (bits & lower) == 0; });
}

/// Chooses the base and bits that hold the sample in the fewest bits.
void choose_codes(const Elements& x, PackBlock& block) {
  std::array<int, 256> occur = {};
  int sampled = 0;
  for (int k = 0; k < x.count; ++k) {
    if (!is_sampled(k / kPackStretch) || x.is_zero(k)) continue;
    ++occur[x.top(k)];
    ++sampled;
  }
  std::uint32_t least = ~0U;
  for (int bits = 0; bits <= kPackMaxBits; ++bits) {
    for (int base = 0; base < 256 && base + pack_window(bits) <= 256; ++base) {
      int inside = 0;
      for (int code = 0; code < pack_window(bits); ++code) inside += occur[base + code];
      const std::uint32_t cost = pack_cost(bits, sampled, inside);
      if (cost >= least) continue;
      least = cost;
      block.bits = static_cast<std::uint8_t>(bits);
      block.base = static_cast<std::uint8_t>(base);
    }
  }
}

/// Whether the top has a code; otherwise it is an escape.
bool has_code(const PackBlock& block, unsigned top) {
  return top - block.base < static_cast<unsigned>(pack_window(block.bits));
}

/// Calls f(k, place) for the elements that are held; place counts them.
template <typename F>
void for_each_held(const Elements& x, PackForm form, const F& f) {
  int place = 0;
  for (int k = 0; k < x.count; ++k) {
    if (form == PackForm::packed || !x.is_zero(k)) f(k, place++);
  }
}

PackBlock describe(const Elements& x) {
  PackBlock block;
  block.halved = has_zero_halves(x) ? 1 : 0;
  int zeros = 0;
  for (int k = 0; k < x.count; ++k) zeros += x.is_zero(k) ? 1 : 0;
  block.form = leaves_zeros_out(zeros, x.count, block.held_size(x.size)) ? PackForm::nonzeros
                                                                         : PackForm::packed;
  choose_codes(x, block);
  for_each_held(x, block.form, [&](int k, int) {
    ++block.held;
    block.escapes += has_code(block, x.top(k)) ? 0 : 1;
  });
  if (PackSections(block, x.count, x.size).size >= x.count * x.size) block = {};
  return block;
}

/// Calls f(offset in the rests, first bit in the element, bytes) for each part that is held of an
/// element's rest.
template <typename F>
void for_each_part(const PackBlock& block, int place, int size, const F& f) {
  int begin = 0;
  int bit = 8 * (size - block.held_size(size));
  for (int bytes = block.held_size(size) / 2; bytes > 0; bytes /= 2) {
    f(begin + place * bytes, bit, bytes);
    begin += block.held * bytes;
    bit += 8 * bytes;
  }
}

/// @pre the block's bytes are 0
void write_block(const Elements& x, const PackBlock& block, std::span<std::byte> out) {
  const PackSections at(block, x.count, x.size);
  if (block.form == PackForm::whole) {
    for (int k = 0; k < x.count; ++k) {
      store_bits(out.data(), k, x.size, raised_sign(x.of[k], x.size));
    }
    return;
  }
  int escapes = 0;
  for_each_held(x, block.form, [&](int k, int place) {
    if (block.form == PackForm::nonzeros) put_bits(out, k, 1, 1);
    for_each_part(block, place, x.size, [&](int offset, int bit, int bytes) {
      store_bits(out.data() + at.rests + offset, 0, bytes, x.of[k] >> bit);
    });
    const unsigned top = x.top(k);
    const bool coded = has_code(block, top);
    put_bits(out.subspan(at.codes), std::int64_t{place} * block.bits, block.bits,
             coded ? top - block.base : pack_window(block.bits));
    if (!coded) out[at.escapes + escapes++] = static_cast<std::byte>(top);
  });
}

/// False when the mask or the codes contradict the block's description.
bool read_block(const PackBlock& block, std::span<const std::byte> in, Elements& x) {
  const PackSections at(block, x.count, x.size);
  if (block.form == PackForm::whole) {
    for (int k = 0; k < x.count; ++k) {
      x.of[k] = lowered_sign(load_bits(in.data(), k, x.size), x.size);
    }
    return true;
  }
  int place = 0;
  int escapes = 0;
  for (int k = 0; k < x.count; ++k) {
    x.of[k] = 0;
    if (block.form == PackForm::nonzeros && get_bits(in, k, 1) == 0) continue;
    if (place == block.held) return false;
    const unsigned code =
        get_bits(in.subspan(at.codes), std::int64_t{place} * block.bits, block.bits);
    unsigned top = (block.base + code) % 256;
    if (code == static_cast<unsigned>(pack_window(block.bits))) {
      if (escapes == block.escapes) return false;
      top = std::to_integer<unsigned>(in[at.escapes + escapes++]);
    }
    x.of[k] = std::uint64_t{top} << (8 * (x.size - 1));
    for_each_part(block, place, x.size, [&](int offset, int bit, int bytes) {
      x.of[k] |= load_bits(in.data() + at.rests + offset, 0, bytes) << bit;
    });
    ++place;
  }
  return place == block.held && escapes == block.escapes;
}

class ExponentPackReference final : public ExponentPackCodec {
 public:
  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override {
    const std::int64_t elements = what.layout.elements();
    const PackLayout at(elements);
    Elements x;
    x.size = static_cast<int>(element_size(what.type));
    std::uint64_t payload = 0;
    for (std::int64_t i = 0; i < at.count; ++i) {
      const std::int64_t begin = i * kPackElements;
      x.count = static_cast<int>(std::min(kPackElements, elements - begin));
      for (int k = 0; k < x.count; ++k) {
        x.of[k] =
            lowered_sign(load_bits(source, offset_of(what.layout, begin + k), x.size), x.size);
      }
      const PackBlock block = describe(x);
      const PackSections sections(block, x.count, x.size);
      const auto to = out.subspan(at.payload + payload, sections.size);
      std::ranges::fill(to, std::byte{0});
      write_block(x, block, to);
      std::memcpy(out.data() + PackLayout::kIndex + 8 * i, &payload, 8);
      std::memcpy(out.data() + at.blocks + 8 * i, &block, 8);
      payload += sections.size;
    }
    const std::int64_t size = at.payload + static_cast<std::int64_t>(payload);
    write_header(what, size, out.data());
    return {true, static_cast<std::size_t>(size)};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override {
    const std::int64_t size = read_header(what, in, reads);
    if (size < 0) return false;
    in = in.first(static_cast<std::size_t>(size));
    const std::int64_t elements = what.layout.elements();
    Elements x;
    x.size = static_cast<int>(element_size(what.type));
    for (std::int64_t i = 0; i < PackLayout(elements).count; ++i) {
      const std::int64_t begin = i * kPackElements;
      x.count = static_cast<int>(std::min(kPackElements, elements - begin));
      PackBlock block;
      std::span<const std::byte> bytes;
      if (!find_block(what, in, i, block, bytes) || !read_block(block, bytes, x)) return false;
      for (int k = 0; k < x.count; ++k) {
        store_bits(target, offset_of(what.layout, begin + k), x.size, raised_sign(x.of[k], x.size));
      }
    }
    return true;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_exponent_pack_reference() {
  return std::make_shared<ExponentPackReference>();
}

}  // namespace cinch::codecs
