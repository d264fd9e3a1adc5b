// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/two_sided.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "codecs/element_bits.h"
#include "codecs/layout.h"
#include "codecs/philox.h"
#include "codecs/reference/elements.h"
#include "codecs/reference/group_quant_group.h"

namespace cinch::codecs {
namespace {

using namespace reference;

/// A group's elements of one side, as a group of group_quant.
struct Side {
  std::vector<std::int64_t> indices;  ///< logical
  std::vector<std::uint32_t> draws;
  std::vector<float> z;
  QuantizedGroup group;

  void add(std::int64_t k, std::uint32_t draw) {
    indices.push_back(k);
    draws.push_back(draw);
  }
};

class TwoSidedReference final : public TwoSidedCodec {
 public:
  using TwoSidedCodec::TwoSidedCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor /*parallel*/) const override try {
    const TwoSidedSections at(parameters(), what.layout, TwoSidedHeader::of(what).channels);
    std::fill_n(out.data(), at.end, std::byte{0});
    put_head(what, key, out);

    bool representable = true;
    for_each_place(what.layout, at, [&](const GroupPlace& place) {
      std::array<Side, 2> sides;  // lower, upper
      for (std::int64_t k = place.begin; k < place.begin + place.count; ++k) {
        const float x = value_of(
            what.type, load_bits(source, offset_of(what.layout, k), element_size(what.type)));
        const std::int64_t c = channel(what.sides.run, what.layout, k);
        Side& side = sides[side_of(what.sides, c, x)];
        side.add(k, philox::draw16(key, static_cast<std::uint64_t>(k)));
        side.z.push_back(normalized_by(what.sides, c, x));
      }
      representable &= put_sides(place, sides, out);
    });
    return {representable, static_cast<std::size_t>(at.end)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    const auto header = encoded_header(what, in, reads);
    if (!header) return false;
    const TwoSidedSections at(parameters(), what.layout, header->channels);
    const auto store = [&](std::int64_t k, std::uint64_t bits) {
      store_bits(target, offset_of(what.layout, k), element_size(what.type), bits);
    };
    for_each_place(what.layout, at, [&](const GroupPlace& place) {
      const std::array<Side, 2> sides = get_sides(place, encoded_key(in), in);
      const bool poisoned = sides[0].group.range == poisoned_range();
      for (std::size_t s = 0; s < 2; ++s) {
        const Side& side = sides[s];
        const std::vector<float> z = parameters().subtractive
                                         ? decode_group_dithered(side.group, side.draws)
                                         : decode_group(side.group);
        for (std::size_t i = 0; i < z.size(); ++i) {
          const std::int64_t k = side.indices[i];
          if (reads == Reads::sign) {
            store(k, s == 1 ? bits_of_one(what.type) : 0);
          } else {
            store(k, poisoned ? bits_of_nan(what.type)
                              : bits_of(what.type, element(*header, at, what.layout, k, z[i], in)));
          }
        }
      }
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  /// Calls f(place) for each group, in logical order. Its bits are those in all.
  template <typename F>
  void for_each_place(const PlaneLayout& layout, const TwoSidedSections& at, F f) const {
    const std::int64_t size = layout.plane_size();
    const std::int64_t group = parameters().group;
    const int bits = parameters().bits;
    for (std::int64_t p = 0; p < layout.planes(); ++p) {
      const std::int64_t codes = at.codes + p * group_quant_code_bytes(size, bits);
      for (std::int64_t g = 0; g < at.groups; ++g) {
        const auto range = static_cast<std::int64_t>(sizeof(TwoSidedRanges)) * (p * at.groups + g);
        f(GroupPlace{p * size + g * group, std::min(group, size - g * group), bits,
                     at.ranges + range, codes + g * group / 8 * bits});
      }
    }
  }

  static std::int64_t channel(std::int64_t run, const PlaneLayout& layout, std::int64_t k) {
    return run > 0 ? k % layout.plane_size() / run : 0;
  }

  /// 1 for upper.
  static std::size_t side_of(const Description::Sides& sides, std::int64_t c, float x) {
    if (sides.factor == nullptr) return x > 0.0F ? 1 : 0;
    return is_upper(x, sides.factor[c], sides.summand[c]) ? 1 : 0;
  }

  static float normalized_by(const Description::Sides& sides, std::int64_t c, float x) {
    if (sides.center == nullptr) return x;
    return normalized(x, sides.center[c], inverse_spread(sides.center[c], sides.spread[c]));
  }

  /// @return whether the group is representable
  static bool put_sides(const GroupPlace& place, std::array<Side, 2>& sides,
                        std::span<std::byte> out) {
    bool good = true;
    for (Side& side : sides) {
      if (!side.z.empty()) side.group = encode_group(side.z, place.bits - 1, side.draws);
      good &= side.group.range != poisoned_range();
    }
    const TwoSidedRanges ranges = good ? TwoSidedRanges{sides[0].group.range, sides[1].group.range}
                                       : TwoSidedRanges{poisoned_range(), poisoned_range()};
    std::memcpy(out.data() + place.range, &ranges, sizeof ranges);
    for (unsigned s = 0; s < 2; ++s) {
      for (std::size_t i = 0; i < sides[s].indices.size(); ++i) {
        const unsigned code = good ? sides[s].group.codes[i] : 0;
        put_bits(out.subspan(place.codes), (sides[s].indices[i] - place.begin) * place.bits,
                 place.bits, s << (place.bits - 1) | code);
      }
    }
    return good;
  }

  static std::array<Side, 2> get_sides(const GroupPlace& place, RandomKey key,
                                       std::span<const std::byte> in) {
    TwoSidedRanges ranges;
    std::memcpy(&ranges, in.data() + place.range, sizeof ranges);
    std::array<Side, 2> sides;
    sides[0].group.range = ranges.lower;
    sides[1].group.range = ranges.upper;
    for (std::int64_t i = 0; i < place.count; ++i) {
      const unsigned code = get_bits(in.subspan(place.codes), i * place.bits, place.bits);
      Side& side = sides[code >> (place.bits - 1)];
      const std::int64_t k = place.begin + i;
      side.add(k, philox::draw16(key, static_cast<std::uint64_t>(k)));
      side.group.codes.push_back(static_cast<std::uint8_t>(code & ((1U << (place.bits - 1)) - 1)));
    }
    return sides;
  }

  /// The element at logical index k from what it was quantized as.
  static float element(const TwoSidedHeader& header, const TwoSidedSections& at,
                       const PlaneLayout& layout, std::int64_t k, float z,
                       std::span<const std::byte> in) {
    if (header.run == 0) return z;
    TwoSidedScale scale;
    const std::int64_t c = channel(header.run, layout, k);
    std::memcpy(&scale, in.data() + at.scales + c * static_cast<std::int64_t>(sizeof scale),
                sizeof scale);
    return denormalized(z, scale.center, scale.spread);
  }
};

}  // namespace

std::shared_ptr<const Codec> make_two_sided_reference(const TwoSidedParameters& parameters) {
  return std::make_shared<TwoSidedReference>(parameters);
}

}  // namespace cinch::codecs
