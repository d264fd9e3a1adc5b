// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/division/division_groups.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "codecs/element_bits.h"
#include "codecs/reference/division/division_plane.h"
#include "codecs/reference/elements.h"
#include "codecs/reference/group_quant_group.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class DivisionGroupsReference final : public DivisionGroupsCodec {
 public:
  using DivisionGroupsCodec::DivisionGroupsCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor /*parallel*/) const override try {
    const DivisionGroupsSections at(parameters(), what.layout);
    const std::int64_t size = what.layout.plane_size();
    const Means means(parameters(), what.layout);
    const auto residuals = out.subspan(at.residuals);
    std::fill_n(out.data(), at.end, std::byte{0});
    if (parameters().residuals.subtractive) std::memcpy(residuals.data(), &key, sizeof key);

    bool representable = true;
    std::vector<float> x(size);
    for_each_group(parameters().residuals, what.layout, {}, [&](const GroupPlace& place) {
      const std::int64_t begin = place.begin % size;
      if (begin == 0) {
        for (std::int64_t i = 0; i < size; ++i) {
          x[i] = value_of(what.type, load_bits(source, offset_of(what.layout, place.begin + i),
                                               element_size(what.type)));
        }
        means.put(place.begin / size, x, out);
        for (std::int64_t i = 0; i < size; ++i) x[i] -= means.get(place.begin + i, out);
      }
      representable &= put_group(place, std::span(x).subspan(begin, place.count), key, residuals);
    });
    return {representable, static_cast<std::size_t>(at.end)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    if (!can_decode(what, in.size(), reads)) return false;
    const DivisionGroupsSections at(parameters(), what.layout);
    const Means means(parameters(), what.layout);
    const auto residuals = in.subspan(at.residuals);
    std::optional<RandomKey> key;
    if (parameters().residuals.subtractive) std::memcpy(&key.emplace(), residuals.data(), 16);

    for_each_group(parameters().residuals, what.layout, {}, [&](const GroupPlace& place) {
      const auto r = get_group(place, key, residuals);
      for (std::int64_t k = place.begin; k < place.begin + place.count; ++k) {
        store_bits(target, offset_of(what.layout, k), element_size(what.type),
                   r ? bits_of(what.type, means.get(k, in) + (*r)[k - place.begin])
                     : bits_of_nan(what.type));
      }
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  /// The section of the means.
  class Means {
   public:
    Means(const DivisionGroupsParameters& parameters, const PlaneLayout& layout)
        : geometry_(parameters.means, layout.extent),
          size_(layout.plane_size()),
          covering_(covering_blocks(geometry_)) {}

    /// Stores those of plane p.
    void put(std::int64_t p, std::span<const float> x, std::span<std::byte> out) const {
      std::int64_t at = p * geometry_.block_count();
      for (const float mean : block_means(x, geometry_)) {
        const std::uint16_t bits = held_mean(mean);
        std::memcpy(out.data() + 2 * at++, &bits, 2);
      }
    }

    /// That of the block that covers the element at logical index k.
    float get(std::int64_t k, std::span<const std::byte> in) const {
      std::uint16_t bits = 0;
      const std::int64_t block = k / size_ * geometry_.block_count() + covering_[k % size_];
      std::memcpy(&bits, in.data() + 2 * block, 2);
      return float_of_bf16(bits);
    }

   private:
    DivisionGeometry geometry_;
    std::int64_t size_;
    std::vector<std::int64_t> covering_;  ///< the same for all planes
  };
};

}  // namespace

std::shared_ptr<const Codec> make_division_groups_reference(
    const DivisionGroupsParameters& parameters) {
  return std::make_shared<DivisionGroupsReference>(parameters);
}

}  // namespace cinch::codecs
