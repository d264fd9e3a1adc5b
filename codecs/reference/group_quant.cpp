// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/group_quant.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "codecs/element_bits.h"
#include "codecs/layout.h"
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
      representable &= put_group(place, x, key, out);
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
      auto x = get_group(place, key, in);
      if (x && parameters().roots) square_roots(place, in, *x);
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
