// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/outcome.h"

#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace cinch::hooks {

std::shared_ptr<EncodeOutcome> EncodeOutcome::make(ResultPool& pool, const c10::Stream& stream) {
  codecs::cuda::Result* const result = pool.take();
  if (result == nullptr) return nullptr;
  try {
    return std::shared_ptr<EncodeOutcome>(new EncodeOutcome(pool, result, stream));
  } catch (const std::bad_alloc&) {
    pool.give_back({result});
    return nullptr;
  }
}

// A forked child leaves the parent's results alone: page-locked memory may not be there.
EncodeOutcome::~EncodeOutcome() {
  if (made_after_ == forks_before()) pool_.give_back(std::move(pending_));
}

void EncodeOutcome::give_up() {
  pending_.comes = true;  // until it is known when the work is over
  pending_.works.push_back(work_of(stream_));
  pending_.comes = false;
}

bool EncodeOutcome::happened() const noexcept {
  return made_after_ == forks_before() && ResultPool::is_written(*result());
}

// Looks at the result itself, since an event would be recorded behind all that followed the
// encoding. The event only ends the wait when a device has failed.
void EncodeOutcome::wait() const {
  constexpr std::chrono::microseconds between_looks(20);
  if (happened() || made_after_ != forks_before()) return;
  const StreamWork so_far = work_of(stream_);
  while (!happened() && so_far.is_under_way()) std::this_thread::sleep_for(between_looks);
}

std::optional<std::size_t> EncodeOutcome::bytes(std::size_t below) const noexcept {
  if (!happened() || result()->not_representable != 0 || result()->bytes >= below) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(result()->bytes);
}

}  // namespace cinch::hooks
