// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "hooks/torch/stash/entry_lists.h"
#include "hooks/torch/stash/holdings.h"
#include "hooks/torch/stash/policy_in_force.h"
#include "hooks/torch/stash/settler.h"
#include "hooks/torch/stash/statistics.h"

namespace cinch::hooks {

/// What the stash does when an allocator has no more memory. Thread-safe; locks of the stash's may
/// be held by the thread that asks.
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

  /// Memory of a CUDA device (Holding::host: of the host) has run out: gives up what was read ahead
  /// of backward and the guard's samples, encodes, in this thread, what is solely the stash's, the
  /// window's oldest first, holds what is then settled in fewer bits, and moves it to the host,
  /// each only until about `bytes` are free. Returns the bytes that the stash holds less there; 0
  /// too when it is the stash's own work that asks. For lossy codecs the results are those of a
  /// smaller window once something had to be encoded.
  std::size_t make_room(int device, std::size_t bytes);

  /// Other processes gave so much of a device back when this one had run out.
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
