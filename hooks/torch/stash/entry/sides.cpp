// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/sides.h"

#include <cstdint>

namespace cinch::hooks {
namespace {

/// Neighbouring elements of a channel, in the order of a plane's elements; 0: channels lie
/// otherwise.
std::int64_t run_in(const codecs::PlaneLayout& layout, const codecs::ChannelOrder& order) {
  const std::int64_t size = layout.plane_size();
  if (layout.elements() != order.outer * order.channels * order.inner) return 0;
  if (layout.is_contiguous()) return size == order.channels * order.inner ? order.inner : 0;
  if (order.inner != 1 || size % order.channels != 0) return 0;
  // Channels last: the plane's order begins with the channels, which lie side by side.
  for (std::size_t axis = 0; axis < layout.extent.size(); ++axis) {
    if (layout.extent[axis] == 1) continue;
    const bool is_channels = layout.extent[axis] == order.channels && layout.stride[axis] == 1;
    return is_channels ? size / order.channels : 0;
  }
  return 0;
}

}  // namespace

std::optional<codecs::Description> Sides::added_to(const codecs::Description& what) const {
  const std::int64_t run = run_in(what.layout, order);
  if (run == 0) return std::nullopt;
  codecs::Description with = what;
  with.sides = {scale.data(), shift.data(), mean.data(), deviation.data(), run};
  return with;
}

}  // namespace cinch::hooks
