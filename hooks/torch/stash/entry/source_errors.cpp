// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/source_errors.h"

#include <cstddef>
#include <cstring>

#include "codecs/affine.h"
#include "codecs/float_formats.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {

std::optional<codecs::EvenErrors> even_errors(const Entry& entry) {
  if (entry.state != Entry::State::encoded) return {};
  const Plan::Candidate& by = held_by(entry);
  return by.codec->even_errors(described(by, entry));
}

SourceErrors SourceErrors::of(const Entry& entry) {
  const auto errors = even_errors(entry);
  if (!errors) return {};
  const auto* const ranges = static_cast<const std::byte*>(entry.encoded.get()) + errors->ranges;
  SourceErrors found = {{}, errors->order};
  found.steps.reserve(static_cast<std::size_t>(errors->groups));
  for (std::int64_t g = 0; g < errors->groups; ++g) {
    codecs::AffineRange range;
    std::memcpy(&range, ranges + g * static_cast<std::int64_t>(sizeof range), sizeof range);
    found.steps.push_back(codecs::float_of_bf16(range.step));
  }
  return found;
}

}  // namespace cinch::hooks
