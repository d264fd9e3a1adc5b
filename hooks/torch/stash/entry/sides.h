// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "codecs/arithmetic/norms.h"
#include "codecs/codec.h"

namespace cinch::hooks {

/// On which side of a ReLU the elements of a batch norm's input come out, and the statistics that
/// the norm divided by: what the codec two_sided takes (codecs/formats/two_sided.h). By channel, in
/// the host's memory.
struct Sides {
  std::vector<float> scale;  ///< with `shift` the norm: the upper side is fma(x, scale, shift) > 0
  std::vector<float> shift;
  std::vector<float> mean;
  std::vector<float> deviation;
  codecs::ChannelOrder order;  ///< of the elements in memory

  /// `what`, with these sides; nullopt where its planes are cut in another way than channels.
  std::optional<codecs::Description> added_to(const codecs::Description& what) const;
};

}  // namespace cinch::hooks
