// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/outside/reclaim.h"

#include <exception>

#include "allocator/reclaimer.h"
#include "allocator/torch/host_allocator.h"
#include "hooks/torch/outside/memory_of_others.h"
#include "hooks/torch/process/cuda_plugin.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

class StashReclaimer final : public allocator::Reclaimer {
 public:
  std::size_t reclaim(int device, std::size_t bytes) noexcept override {
    std::size_t freed = 0;
    try {
      freed = stash().rescue().make_room(device, bytes);
    } catch (const std::exception&) {
      // The host's memory is short too.
    }
    if (device == Holding::host || freed >= bytes) return freed;
    return freed + ask_others_for(device, bytes - freed);
  }

  bool is_at_work() const noexcept override { return AtWork::here(); }

  std::size_t held_bytes(int device) const noexcept override {
    return device == Holding::host ? stash().lists().bytes()
                                   : stash().lists().settled_bytes(device);
  }
};

}  // namespace

void let_allocators_ask_the_stash() {
  static auto& reclaimer = *new StashReclaimer;  // allocators outlive everything
  if (allocator::Core* core = allocator::host_core(); core != nullptr) {
    core->set_reclaim([](std::size_t bytes) { return reclaimer.reclaim(Holding::host, bytes); });
  }
  if (const auto* plugin = cuda_plugin(); plugin != nullptr) plugin->set_reclaimer(&reclaimer);
}

}  // namespace cinch::hooks
