// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/plan.h"

#include <algorithm>

namespace cinch::hooks {

bool Plan::keeps_values() const {
  if (action == policy::Decision::Action::drop) return false;
  return std::ranges::all_of(candidates, [](const Candidate& candidate) {
    return candidate.codec->restores() == codecs::Reads::values;
  });
}

bool Plan::approximates() const {
  return std::ranges::any_of(candidates, &Candidate::approximates);
}

}  // namespace cinch::hooks
