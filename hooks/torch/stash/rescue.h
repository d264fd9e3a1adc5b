// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/holding/holdings.h"
#include "hooks/torch/stash/lists/entry_lists.h"
#include "hooks/torch/stash/settler.h"

namespace cinch::hooks {

/// Frees memory of the stash when an allocator has run out. Thread-safe; the calling thread may
/// hold locks of the stash.
class Rescue {
 public:
  Rescue(EntryLists& lists, const PolicyInForce& policy, Statistics& statistics,
         const Holdings& holdings, Settler& settler)
      : lists_(lists),
        policy_(policy),
        statistics_(statistics),
        holdings_(holdings),
        settler_(settler) {}
  Rescue(const Rescue&) = delete;
  Rescue& operator=(const Rescue&) = delete;

  /// A CUDA device (Holding::host: the host) has run out of memory. Takes these steps in this
  /// thread until about `bytes` are free: gives up what was read ahead, and the guard's samples;
  /// encodes entries that only the stash owns, the window's oldest first; encodes settled ones in
  /// fewer bits; moves them to the host. Encoding early changes lossy results as a smaller window
  /// would. @return the bytes freed there; 0 when the stash's own work asks
  std::size_t make_room(int device, std::size_t bytes);

  /// Notes that other processes gave back `bytes` of a device when this one had run out.
  void note_given(int device, std::size_t bytes);

 private:
  void note(int device, const Statistics::Rescue& by);

  EntryLists& lists_;
  const PolicyInForce& policy_;
  Statistics& statistics_;
  const Holdings& holdings_;
  Settler& settler_;
};

}  // namespace cinch::hooks
