// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/division/division.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "codecs/element_bits.h"
#include "codecs/layout.h"
#include "codecs/philox.h"
#include "codecs/reference/division/division_plane.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

class DivisionReference final : public DivisionCodec {
 public:
  using DivisionCodec::DivisionCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor /*parallel*/) const override try {
    const DivisionGeometry geometry(parameters(), what.layout.extent);
    const DivisionSections at(parameters(), geometry, what.layout);
    const std::int64_t size = what.layout.plane_size();
    const std::int64_t blocks = geometry.block_count();
    std::fill_n(out.data(), at.end, std::byte{0});

    std::vector<float> x(size);
    std::vector<std::uint32_t> draws(size);
    bool representable = true;
    for (std::int64_t p = 0; p < what.layout.planes(); ++p) {
      bool good = true;
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t k = p * size + i;
        x[i] = value_of(what.type,
                        load_bits(source, offset_of(what.layout, k), element_size(what.type)));
        draws[i] = philox::draw16(key, static_cast<std::uint64_t>(k));
        good &= std::fabs(x[i]) <= kAffineMaxMagnitude;
        if (parameters().with_sign && x[i] < 0.0F) representable = false;
      }
      representable &= good;
      const DivisionPlane plane =
          good ? encode_plane(x, geometry, parameters().bits, draws) : poisoned_plane(blocks, size);

      std::memcpy(out.data() + p * blocks * 2, plane.means.data(), blocks * 2);
      std::memcpy(out.data() + at.ranges + p * 4, &plane.range, 4);
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t k = p * size + i;
        if (parameters().with_sign) put_bits(out.subspan(at.signs), k, 1, x[i] > 0.0F);
        put_bits(out.subspan(at.codes), k * parameters().bits, parameters().bits, plane.codes[i]);
      }
    }
    return {representable, static_cast<std::size_t>(at.end)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    if (!can_decode(what, in.size(), reads)) return false;
    const DivisionGeometry geometry(parameters(), what.layout.extent);
    const DivisionSections at(parameters(), geometry, what.layout);
    const std::int64_t size = what.layout.plane_size();
    const std::int64_t blocks = geometry.block_count();

    DivisionPlane plane;
    plane.means.resize(blocks);
    plane.codes.resize(size);
    for (std::int64_t p = 0; p < what.layout.planes(); ++p) {
      std::memcpy(plane.means.data(), in.data() + p * blocks * 2, blocks * 2);
      std::memcpy(&plane.range, in.data() + at.ranges + p * 4, 4);
      for (std::int64_t i = 0; i < size; ++i) {
        plane.codes[i] = static_cast<std::uint8_t>(
            get_bits(in.subspan(at.codes), (p * size + i) * parameters().bits, parameters().bits));
      }
      const bool poisoned = plane.range == poisoned_range();
      std::vector<float> x = decode_plane(plane, geometry);
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t k = p * size + i;
        if (poisoned && reads == Reads::values) {
          store_bits(target, offset_of(what.layout, k), element_size(what.type),
                     bits_of_nan(what.type));
          continue;
        }
        if (parameters().with_sign) {
          const bool positive = get_bits(in.subspan(at.signs), k, 1) != 0;
          if (reads == Reads::sign) x[i] = 1.0F;
          if (!positive) x[i] = 0.0F;
        }
        store_bits(target, offset_of(what.layout, k), element_size(what.type),
                   bits_of(what.type, x[i]));
      }
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_division_reference(const DivisionParameters& parameters) {
  return std::make_shared<DivisionReference>(parameters);
}

}  // namespace cinch::codecs
