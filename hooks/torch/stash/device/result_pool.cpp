// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/result_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

namespace cinch::hooks {

// The device writes the size last, in one store: see codecs::cuda::Result.
bool ResultPool::is_written(const codecs::cuda::Result& result) noexcept {
  return __atomic_load_n(&result.bytes, __ATOMIC_ACQUIRE) != 0;
}

codecs::cuda::Result* ResultPool::take() noexcept try {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) look_at_pending();
  if (free_.empty()) add_segment();
  if (free_.empty()) return nullptr;
  codecs::cuda::Result* const result = free_.back();
  free_.pop_back();
  *result = {};
  return result;
} catch (const std::exception&) {
  return nullptr;
}

void ResultPool::give_back(Pending pending) noexcept try {
  const std::lock_guard lock(mutex_);
  refused_ = false;
  if (pending.works.empty() && is_over(pending)) {
    free_.push_back(pending.result);
  } else {
    pending_.push_back(std::move(pending));
  }
} catch (const std::exception&) {
  // No memory for the lists: the result is not used again.
}

bool ResultPool::is_over(const Pending& pending) noexcept {
  return (!pending.comes || is_written(*pending.result)) &&
         std::ranges::all_of(pending.works, [](const StreamWork& work) { return work.happened(); });
}

// pre: mutex_ is held; likewise in add_segment()
void ResultPool::look_at_pending() {
  const auto over =
      std::ranges::partition(pending_, [](const Pending& pending) { return !is_over(pending); });
  free_.reserve(free_.size() + over.size());
  for (const Pending& pending : over) free_.push_back(pending.result);
  pending_.erase(over.begin(), over.end());
}

void ResultPool::add_segment() {
  if (refused_ || segments_ == most_segments) return;
  auto* const slots = static_cast<Slot*>(host_.allocate(segment_bytes));
  refused_ = slots == nullptr;
  if (refused_) return;
  ++segments_;
  constexpr std::size_t count = segment_bytes / sizeof(Slot);
  free_.reserve(free_.size() + count);
  for (std::size_t i = count; i-- > 0;) free_.push_back(&slots[i].result);
}

}  // namespace cinch::hooks
