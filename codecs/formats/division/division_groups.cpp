// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/division/division_groups.h"

#include "codecs/layout.h"

namespace cinch::codecs {

DivisionGroupsParameters division_groups_of(const CodecSpec& spec) noexcept {
  return {
      .means = {.block = spec.block, .edge_ceil = spec.edge_ceil},
      .residuals = {
          .bits = spec.bits, .group = spec.residual_group, .subtractive = spec.subtractive_dither}};
}

Description division_residuals(const Description& what) noexcept {
  return {.type = ElementType::float32, .layout = what.layout};
}

DivisionGroupsSections::DivisionGroupsSections(const DivisionGroupsParameters& parameters,
                                               const PlaneLayout& layout) noexcept {
  const DivisionGeometry geometry(parameters.means, layout.extent);
  const std::int64_t means = 2 * geometry.block_count() * layout.planes();
  residuals = (means + kGroupQuantAlignment - 1) / kGroupQuantAlignment * kGroupQuantAlignment;
  end = residuals + GroupQuantSections(parameters.residuals, layout, {}).end;
}

bool DivisionGroupsCodec::accepts(const Description& what) const noexcept {
  return is_quantizable(what.type) && is_valid(what.layout);
}

std::size_t DivisionGroupsCodec::encoded_bytes(const Description& what) const noexcept {
  return static_cast<std::size_t>(DivisionGroupsSections(parameters_, what.layout).end);
}

bool DivisionGroupsCodec::can_decode(const Description& what, std::size_t size,
                                     Reads reads) const noexcept {
  return reads == Reads::values && accepts(what) && size >= encoded_bytes(what);
}

}  // namespace cinch::codecs
