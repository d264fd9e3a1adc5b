// SPDX-License-Identifier: Apache-2.0
#include "codecs/group_quant.h"

#include <algorithm>
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

class GroupQuantReference final : public GroupQuantCodec {
 public:
  using GroupQuantCodec::GroupQuantCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor /*parallel*/) const override try {
    const GroupQuantSections at(parameters(), what.layout, what.plane_bits);
    std::fill_n(out.data(), at.end, std::byte{0});
    if (parameters().subtractive) std::memcpy(out.data(), &key, sizeof key);
    std::ranges::copy(std::as_bytes(what.plane_bits), out.begin() + at.plane_bits_at);

    bool representable = true;
    std::vector<float> x;
    std::vector<std::uint32_t> draws;
    for_each_group(what, at, what.plane_bits, [&](const Place& place) {
      x.clear();
      for (std::int64_t k = place.begin; k < place.begin + place.count; ++k) {
        x.push_back(value_of(
            what.type, load_bits(source, offset_of(what.layout, k), element_size(what.type))));
      }
      draw(key, place, draws);
      const QuantizedGroup group = encode_group(x, place.bits, draws);
      representable &= group.range != poisoned_range();

      std::memcpy(out.data() + place.range, &group.range, 4);
      for (std::int64_t i = 0; i < place.count; ++i) {
        put_bits(out.subspan(place.codes), i * place.bits, place.bits, group.codes[i]);
      }
    });
    return {representable, static_cast<std::size_t>(at.end)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    const auto plane_bits = encoded_plane_bits(what, in, reads);
    if (!plane_bits) return false;
    const GroupQuantSections at(parameters(), what.layout, *plane_bits);

    const RandomKey key = encoded_key(in);

    QuantizedGroup group;
    std::vector<std::uint32_t> draws;
    for_each_group(what, at, *plane_bits, [&](const Place& place) {
      std::memcpy(&group.range, in.data() + place.range, 4);
      group.codes.resize(place.count);
      for (std::int64_t i = 0; i < place.count; ++i) {
        group.codes[i] = static_cast<std::uint8_t>(
            get_bits(in.subspan(place.codes), i * place.bits, place.bits));
      }
      const bool poisoned = group.range == poisoned_range();
      if (parameters().subtractive) draw(key, place, draws);
      const std::vector<float> x =
          parameters().subtractive ? decode_group_dithered(group, draws) : decode_group(group);
      for (std::int64_t i = 0; i < place.count; ++i) {
        store_bits(target, offset_of(what.layout, place.begin + i), element_size(what.type),
                   poisoned ? bits_of_nan(what.type) : bits_of(what.type, x[i]));
      }
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  /// A group's elements, and the offsets of its encoded parts.
  struct Place {
    std::int64_t begin;  ///< logical index of its first element
    std::int64_t count;
    int bits;
    std::int64_t range;
    std::int64_t codes;
  };

  static void draw(RandomKey key, const Place& place, std::vector<std::uint32_t>& draws) {
    draws.clear();
    for (std::int64_t k = place.begin; k < place.begin + place.count; ++k) {
      draws.push_back(philox::draw16(key, static_cast<std::uint64_t>(k)));
    }
  }

  template <typename F>
  void for_each_group(const Description& what, const GroupQuantSections& at,
                      std::span<const std::uint8_t> plane_bits, F f) const {
    const std::int64_t size = what.layout.plane_size();
    const std::int64_t group = parameters().group;
    std::int64_t codes = at.codes;
    for (std::int64_t p = 0; p < what.layout.planes(); ++p) {
      const int bits = plane_bits.empty() ? parameters().bits : plane_bits[p];
      for (std::int64_t g = 0; g < at.groups; ++g) {
        f(Place{p * size + g * group, std::min(group, size - g * group), bits,
                at.ranges + (p * at.groups + g) * 4, codes + g * group / 8 * bits});
      }
      codes += group_quant_code_bytes(size, bits);
    }
  }
};

}  // namespace

std::shared_ptr<const Codec> make_group_quant_reference(const GroupQuantParameters& parameters) {
  return std::make_shared<GroupQuantReference>(parameters);
}

}  // namespace cinch::codecs
