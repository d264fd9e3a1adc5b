// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/sharing/exports.h"

#include <algorithm>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

namespace cinch::allocator {
namespace {

std::atomic<std::uint32_t> last_serial{0};  // of all devices

}  // namespace

SharedHandles Exports::share(Address address, std::size_t& offset) {
  const std::lock_guard lock(mutex_);
  auto at = blocks_.find(address);
  if (at == blocks_.end()) {
    Block block{.bytes = core_.size_of(address), .pieces = core_.behind(address)};
    TORCH_CHECK(!block.pieces.empty(), "invalid device pointer: ", address);
    std::size_t opened = 0;
    for (const Core::Piece& piece : block.pieces) {
      Open& open = open_[piece.handle];
      if (open.blocks == 0) {
        open.descriptor = driver_.export_handle(piece.handle);
        if (open.descriptor < 0) {
          open_.erase(piece.handle);
          let_go(block.pieces, opened);
          TORCH_CHECK(
              false,
              "the CUDA driver shares no memory of this device with other processes by file "
              "descriptors; set \"allocator\": {\"cuda\": false} in the policy to share CUDA "
              "tensors");
        }
        open.serial = ++last_serial;
      }
      ++open.blocks;
      ++opened;
    }
    if (!core_.pin(address)) {
      let_go(block.pieces, opened);
      TORCH_CHECK(false, "no memory to keep the book on shared memory");
    }
    at = blocks_.emplace(address, std::move(block)).first;
    blocks_shared_.store(blocks_.size(), std::memory_order_relaxed);
  }
  const Block& block = at->second;
  SharedHandles shared{.process = getpid(), .serial = 0, .pieces = {}};
  for (const Core::Piece& piece : block.pieces) {
    const Open& open = open_.at(piece.handle);
    shared.pieces.push_back({piece.bytes, open.descriptor});
    shared.serial = std::max(shared.serial, open.serial);
  }
  offset = address - block.pieces.front().address;
  return shared;
}

void Exports::forget(Address address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto node = blocks_.extract(address);
  if (node.empty()) return;
  blocks_shared_.store(blocks_.size(), std::memory_order_relaxed);
  core_.unpin(address, node.mapped().bytes);
  let_go(node.mapped().pieces, node.mapped().pieces.size());
}

// Takes one block off the first `count` handles; closes unused descriptors. pre: mutex_ is held
void Exports::let_go(const std::vector<Core::Piece>& pieces, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = open_.find(pieces[i].handle);
    if (--at->second.blocks != 0) continue;
    close(at->second.descriptor);
    open_.erase(at);
  }
}

bool Exports::has(std::int32_t descriptor) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      open_, [&](const auto& each) { return each.second.descriptor == descriptor; });
}

}  // namespace cinch::allocator
