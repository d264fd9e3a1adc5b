// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/group_quant.h"

#include <algorithm>
#include <cstring>

namespace cinch::codecs {
namespace {

bool are_valid(std::span<const std::uint8_t> plane_bits) noexcept {
  return std::all_of(plane_bits.begin(), plane_bits.end(),
                     [](std::uint8_t bits) { return bits >= 1 && bits <= 8; });
}

}  // namespace

GroupQuantParameters group_quant_of(const CodecSpec& spec) noexcept {
  return {.bits = spec.bits,
          .group = spec.group,
          .subtractive = spec.subtractive_dither,
          .floor = float_of_bf16(bf16_down(spec.floor)),
          .roots = spec.roots,
          .zero_code = spec.zero_code};
}

GroupQuantSections::GroupQuantSections(const GroupQuantParameters& parameters,
                                       const PlaneLayout& layout,
                                       std::span<const std::uint8_t> plane_bits) noexcept {
  const std::int64_t size = layout.plane_size();
  const std::int64_t planes = layout.planes();
  groups = (size - 1) / parameters.group + 1;
  plane_bits_at = parameters.subtractive ? sizeof(RandomKey) : 0;
  ranges = plane_bits_at;
  if (!plane_bits.empty()) {
    ranges += (planes + kGroupQuantAlignment - 1) / kGroupQuantAlignment * kGroupQuantAlignment;
  }
  codes = ranges + 4 * groups * planes;
  end = codes;
  if (plane_bits.empty()) end += planes * group_quant_code_bytes(size, parameters.bits);
  for (const int bits : plane_bits) end += group_quant_code_bytes(size, bits);
}

bool GroupQuantCodec::accepts(const Description& what) const noexcept {
  if (!is_float(what.type) || !is_valid(what.layout)) return false;
  if (parameters_.zero_code && what.type == ElementType::float64) return false;
  if (what.plane_bits.empty()) return true;
  if (parameters_.zero_code) return false;
  return static_cast<std::int64_t>(what.plane_bits.size()) == what.layout.planes() &&
         are_valid(what.plane_bits);
}

std::size_t GroupQuantCodec::encoded_bytes(const Description& what) const noexcept {
  return static_cast<std::size_t>(
      GroupQuantSections(parameters_, what.layout, what.plane_bits).end);
}

std::optional<EvenErrors> GroupQuantCodec::even_errors(const Description& what) const noexcept {
  const bool interleaved = interleaves_groups(what.layout, parameters_.group);
  // Neither squares' errors are even, nor are zeros'.
  if (!parameters_.subtractive || parameters_.roots || parameters_.zero_code) return {};
  if (!interleaved && !what.layout.is_contiguous()) return {};
  const GroupQuantSections at(parameters_, what.layout, what.plane_bits);
  return EvenErrors{at.ranges,
                    at.groups * what.layout.planes(),
                    {parameters_.group, what.layout.plane_size(), interleaved}};
}

std::optional<std::span<const std::uint8_t>> GroupQuantCodec::encoded_plane_bits(
    const Description& what, std::span<const std::byte> in, Reads reads) const noexcept {
  if (reads != Reads::values && !(reads == Reads::sign && parameters_.zero_code)) return {};
  if (!is_float(what.type) || !is_valid(what.layout)) return {};
  std::span<const std::uint8_t> plane_bits;
  if (!what.plane_bits.empty()) {
    const auto planes = static_cast<std::size_t>(what.layout.planes());
    const std::size_t before = parameters_.subtractive ? sizeof(RandomKey) : 0;
    if (in.size() < before + planes) return {};
    plane_bits = {reinterpret_cast<const std::uint8_t*>(in.data() + before), planes};
    if (!are_valid(plane_bits)) return {};
  }
  const GroupQuantSections at(parameters_, what.layout, plane_bits);
  if (in.size() < static_cast<std::size_t>(at.end)) return {};
  return plane_bits;
}

RandomKey GroupQuantCodec::encoded_key(std::span<const std::byte> in) const noexcept {
  RandomKey key;
  if (parameters_.subtractive) std::memcpy(&key, in.data(), sizeof key);
  return key;
}

}  // namespace cinch::codecs
