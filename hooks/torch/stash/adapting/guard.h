// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

#include "codecs/codec.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/nodes_that_read.h"
#include "hooks/torch/stash/entry/plan.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// The error of decoded values x' against exact values x.
struct ValueError {
  double relative = 0;  ///< ||x' - x|| / ||x|| over the elements with a finite x; 0 for x = 0
  std::size_t non_finite = 0;  ///< elements that are finite in x but not in x'
};

/// Compares `bytes` bytes of float elements. Other types count as equal.
ValueError value_error(const void* exact, const void* decoded, codecs::ElementType type,
                       std::size_t bytes) noexcept;

/// Chooses the entries to watch, whose exact values are kept until backward, and knows which
/// autograd nodes read them. It looks once in `every_steps` optimizer steps. A look takes as many
/// entries as fit into a sixteenth of the activations' bytes, at least one, if there is room for
/// what it keeps of them. Looks take turns among the members of classes; when all were seen, a new
/// round begins.
class Guard {
 public:
  explicit Guard(const policy::GuardSettings& settings) : settings_(settings) {}

  const policy::GuardSettings& settings() const noexcept { return settings_; }

  /// Changes the settings. @pre the stash's lock is held, nothing is watched
  void change(const policy::GuardSettings& settings) noexcept {
    settings_ = settings;
    step_ = 0;
    due_ = looked_ = false;
  }

  /// Bytes of exact values.
  struct Kept {
    std::size_t bytes = 0;                                       ///< of the entry, if it is watched
    std::size_t room = std::numeric_limits<std::size_t>::max();  ///< of all, in a step
  };
  /// Whether to watch an entry of `member` in this step. @pre the stash's lock is held
  bool wants(EntryClass::Member& member, std::size_t raw_bytes, std::uint64_t step,
             std::uint64_t raw_bytes_at_peak, const Kept& kept);

  /// Adds the nodes that read `entry`, which is watched from now on. Thread-safe.
  void watch(const Entry& entry);
  void forget(const Use& use) noexcept;

  /// Whether a node of this sequence number may read a watched entry. Thread-safe.
  bool is_watched(std::uint32_t sequence) const;

  /// Whether an error is above its limit.
  bool too_far(const ValueError& error) const noexcept {
    return error.non_finite != 0 || error.relative > settings_.max_relative_error;
  }
  bool too_far(double gradient_error) const noexcept {
    return !(gradient_error <= settings_.max_gradient_error);
  }

  std::mutex& mutex() noexcept { return mutex_; }

 private:
  policy::GuardSettings settings_;

  // Under the stash's lock.
  std::uint32_t round_ = 1;
  std::uint64_t step_ = 0;
  std::size_t bytes_ = 0;  ///< watched in this step
  std::size_t kept_ = 0;   ///< exact values of these that are kept
  bool due_ = false;       ///< a look is due in this step
  bool looked_ = false;    ///< the last look that was due found an entry to watch

  mutable std::mutex mutex_;
  NodesThatRead nodes_;  // of watched entries
};

}  // namespace cinch::hooks
