// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/holding.h"

#include <memory>
#include <utility>

#include "hooks/torch/stash/entry/entry_work.h"
#include "policy/adapting/plane_ranges.h"

namespace cinch::hooks {

void Holding::measure_planes(const Plan::Candidate& candidate, Entry& entry, bool always) {
  entry.planes.reset();
  const bool mixed = candidate.mixed_bits > 0;
  const bool ranged = entry.ranged && candidate.group != 0;
  if (!mixed && !ranged) return;
  entry.planes = std::make_unique<PlaneNumbers>();
  std::vector<float> ranges;
  if (ranged || always) ranges = plane_ranges(candidate, entry);
  if (mixed) {
    const auto planes = static_cast<std::size_t>(candidate.what.layout.planes());
    entry.planes->bits = policy::plane_bits(
        ranges.empty() ? std::vector<float>(planes, 1.0F) : ranges, candidate.mixed_bits);
  }
  if (entry.ranged) entry.planes->ranges = std::move(ranges);
}

void Holding::drop(Entry& entry, c10::Storage& freed) {
  count(entry, *entry.plan().dropped, 0, 0);
  entry.state = Entry::State::dropped;
  freed = std::move(entry.raw);
}

}  // namespace cinch::hooks
