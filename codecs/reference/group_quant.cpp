// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/group_quant.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
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

/// Makes elements of a group's decoded roots.
void square_roots(const GroupPlace& place, std::span<const std::byte> in, std::vector<float>& x) {
  AffineRange range;
  std::memcpy(&range, in.data() + place.range, sizeof range);
  for (float& value : x) value = squared_root(value, float_of_bf16(range.step));
}

unsigned code_at(const GroupPlace& place, std::int64_t i, std::span<const std::byte> in) {
  return get_bits(in.subspan(place.codes), i * place.bits, place.bits);
}

/// put_group with zero_code.
bool put_group_above_zero(const GroupPlace& place, std::span<const float> x, RandomKey key,
                          std::span<std::byte> out) {
  float least = std::numeric_limits<float>::infinity(), most = 0.0F;
  bool holds = true, negative = false;
  for (const float value : x) {
    holds &= value <= kAffineMaxMagnitude;  // false for NaN
    negative |= value < 0.0F;
    if (!(value > 0.0F)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const AffineRange range = holds ? range_above_zero(least, most, place.bits) : poisoned_range();
  std::memcpy(out.data() + place.range, &range, sizeof range);
  for (std::int64_t i = 0; i < place.count; ++i) {
    const float value = x[static_cast<std::size_t>(i)];
    if (!(value > 0.0F)) continue;
    const std::uint32_t draw = philox::draw16(key, static_cast<std::uint64_t>(place.begin + i));
    put_bits(
        out.subspan(place.codes), i * place.bits, place.bits,
        holds ? affine_code(value, float_of_bf16(range.lo), affine_scale(range), place.bits, draw)
              : 1U);
  }
  return holds && !negative;
}

/// Makes zeros of a group's elements with code 0.
void clear_zeros(const GroupPlace& place, std::span<const std::byte> in, std::vector<float>& x) {
  for (std::int64_t i = 0; i < place.count; ++i) {
    if (code_at(place, i, in) == 0) x[static_cast<std::size_t>(i)] = 0.0F;
  }
}

/// Of a group with zero_code: 1 where an element is above 0, else 0.
std::vector<float> signs_of(const GroupPlace& place, std::span<const std::byte> in) {
  std::vector<float> x(static_cast<std::size_t>(place.count), 1.0F);
  clear_zeros(place, in, x);
  return x;
}

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
    for_each_group(parameters(), what.layout, what.plane_bits, [&](const GroupPlace& place) {
      x.clear();
      for (std::int64_t k = place.begin; k < place.begin + place.count; ++k) {
        const std::uint64_t bits =
            load_bits(source, offset_of(what.layout, k), element_size(what.type));
        const float value = value_of(what.type, bits);
        x.push_back(parameters().roots ? rooted(value) : floored(value, parameters().floor));
      }
      representable &= parameters().zero_code ? put_group_above_zero(place, x, key, out)
                                              : put_group(place, x, key, out);
    });
    return {representable, static_cast<std::size_t>(at.end)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    const auto plane_bits = encoded_plane_bits(what, in, reads);
    if (!plane_bits) return false;
    std::optional<RandomKey> key;
    if (parameters().subtractive) key = encoded_key(in);
    for_each_group(parameters(), what.layout, *plane_bits, [&](const GroupPlace& place) {
      auto x = reads == Reads::sign ? signs_of(place, in) : get_group(place, key, in);
      if (x && parameters().roots) square_roots(place, in, *x);
      if (x && parameters().zero_code) clear_zeros(place, in, *x);
      for (std::int64_t i = 0; i < place.count; ++i) {
        store_bits(target, offset_of(what.layout, place.begin + i), element_size(what.type),
                   x ? bits_of(what.type, (*x)[i]) : bits_of_nan(what.type));
      }
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_group_quant_reference(const GroupQuantParameters& parameters) {
  return std::make_shared<GroupQuantReference>(parameters);
}

}  // namespace cinch::codecs
