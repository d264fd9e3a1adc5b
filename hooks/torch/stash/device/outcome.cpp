// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/outcome.h"

#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/cuda_codecs.h"

namespace cinch::hooks {

EncodeOutcome::EncodeOutcome(OnHost there)
    : there_(std::make_unique<OnHost>(std::move(there))), made_after_(forks_before()) {}

// In a forked child, the parent's event must not be destroyed.
EncodeOutcome::~EncodeOutcome() {
  if (made_after_ != forks_before()) static_cast<void>(there_.release());
}

std::shared_ptr<const EncodeOutcome> EncodeOutcome::follow(const codecs::cuda::Result* result,
                                                           const c10::Stream& stream,
                                                           PinnedPool& pool) {
  OnHost there;
  there.piece = pool.take(sizeof *result);
  if (there.piece == nullptr) return nullptr;
  for (const auto& moment : there.piece->before()) block(moment, stream);
  if (!cuda_codecs()->copy(there.piece->data(), result, sizeof *result, native(stream))) {
    return nullptr;
  }
  there.copied = std::make_shared<const Copied>(stream);
  there.piece->used(there.copied);
  return std::shared_ptr<const EncodeOutcome>(new EncodeOutcome(std::move(there)));
}

bool EncodeOutcome::happened() const noexcept {
  return there_->copied->work.happened();
}

void EncodeOutcome::wait() const {
  there_->copied->work.wait_on_host();
}

std::optional<std::size_t> EncodeOutcome::bytes(std::size_t below) const noexcept {
  const auto& found = *reinterpret_cast<const codecs::cuda::Result*>(there_->piece->data());
  if (found.not_representable != 0 || found.bytes >= below) return std::nullopt;
  return static_cast<std::size_t>(found.bytes);
}

}  // namespace cinch::hooks
