// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "hooks/torch/buffer_pool.h"
#include "hooks/torch/entry.h"
#include "hooks/torch/plan.h"
#include "hooks/torch/statistics.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// All that Cinch holds for backward: one entry per storage, encoded at the moment when the stash
/// is the storage's only owner. Thread-safe. Never destroyed: graphs may outlive everything.
class Stash {
 public:
  /// What the stash held when it held most (design.md §2, raw and stored bytes).
  struct Peak {
    std::uint64_t raw_bytes = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t held_elsewhere_bytes = 0;
  };

  explicit Stash(policy::Settings settings);
  Stash(const Stash&) = delete;
  Stash& operator=(const Stash&) = delete;

  const policy::Settings& settings() const noexcept { return policy_.settings(); }
  Statistics& statistics() noexcept { return statistics_; }

  /// Adds one use of `tensor`'s storage; encodes whatever has become solely the stash's.
  /// `use` stays where it is until `release`.
  Entry& save(const at::Tensor& tensor, Use& use);

  /// The storage as `use` needs it: the original one while it is held raw, else one decoded into a
  /// pooled buffer, shared with whoever asked before and still holds it.
  /// @throws c10::Error when there is no memory
  c10::Storage restore(Entry& entry, const Use& use);

  /// Removes `use`; the entry goes with its last one.
  void release(Entry& entry, Use& use) noexcept;

  /// Starts this process's own figures in a forked child.
  void begin_in_child();

  Peak peak() const;
  /// Bytes held now, raw and encoded.
  std::uint64_t bytes() const;
  /// Resident memory of the process when it saved its first tensor; 0 before.
  std::uint64_t rss_at_start() const noexcept { return rss_at_start_; }

 private:
  using Entries = std::vector<Entry*>;

  void forget_pending(Entry& entry);
  void collect_sole_owned(std::size_t at_most, const Entry* but, Entries& ready);
  void settle(Entry& entry);
  bool encode(Entry& entry, c10::Storage& freed);
  c10::Storage decode(Entry& entry, codecs::Reads reads);
  void drop_holder(Entry& entry, Use* use) noexcept;
  void leave_growth(const Entry* reading);
  void sample();

  policy::Policy policy_;
  Statistics statistics_;
  BufferPool encoded_pool_;
  BufferPool decoded_pool_;

  mutable std::mutex mutex_;
  Planner planner_;                                                 // under mutex_, as all below
  std::unordered_map<const c10::StorageImpl*, Entry*> by_storage_;  // pending entries only
  Entries pending_;
  std::size_t cursor_ = 0;
  std::uint32_t next_id_ = 0;
  std::uint64_t settled_raw_ = 0;
  std::uint64_t settled_stored_ = 0;
  std::uint64_t pending_bytes_ = 0;
  Peak peak_;

  std::atomic<bool> growing_{false};
  std::atomic<std::uint64_t> rss_at_start_{0};
};

/// The process's stash. @pre start_stash() was called
Stash& stash() noexcept;

/// Creates it. @pre called once
void start_stash(policy::Settings settings);

}  // namespace cinch::hooks
