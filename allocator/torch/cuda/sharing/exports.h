// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "allocator/core.h"
#include "allocator/torch/cuda/driver/runtime_driver.h"
#include "allocator/torch/cuda/sharing/shared_handles.h"

namespace cinch::allocator {

/// The blocks of a device that are shared with other processes, and the file descriptors of the
/// handles behind them.
///
/// A block is shared from the first time that PyTorch asks until its free, which PyTorch defers
/// until every receiver has let go of it. While it is shared it is pinned and its descriptors are
/// open. They are closed before the memory is given back, since an open descriptor keeps memory
/// alive. Thread-safe.
class Exports {
 public:
  /// @pre both outlive this object
  Exports(Core& core, RuntimeDriver& driver) : core_(core), driver_(driver) {}

  /// Shares a used block. Returns what another process needs to map it, and sets `offset` to where
  /// the block begins there. Throws c10::Error when the driver does not share such memory.
  SharedHandles share(Address block, std::size_t& offset);

  /// Ends the sharing of a block that is being freed. One relaxed load while nothing is shared.
  void end(Address block) noexcept {
    if (blocks_shared_.load(std::memory_order_relaxed) != 0) forget(block);
  }

  /// Whether the descriptor is that of a shared handle.
  bool has(std::int32_t descriptor) const;

  /// For holding it over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Open {
    std::int32_t descriptor = -1;
    std::uint32_t serial = 0;
    std::size_t blocks = 0;  // shared blocks on the handle
  };
  struct Block {
    std::size_t bytes = 0;
    std::vector<Core::Piece> pieces;
  };

  void forget(Address block) noexcept;
  void let_go(const std::vector<Core::Piece>& pieces, std::size_t count) noexcept;

  Core& core_;
  RuntimeDriver& driver_;
  mutable std::mutex mutex_;
  std::unordered_map<Address, Block> blocks_;
  std::unordered_map<Handle, Open> open_;
  std::atomic<std::size_t> blocks_shared_{0};
};

}  // namespace cinch::allocator
