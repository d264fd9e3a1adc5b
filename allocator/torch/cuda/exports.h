// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "allocator/core.h"
#include "allocator/torch/cuda/runtime_driver.h"
#include "allocator/torch/cuda/shared_handles.h"

namespace cinch::allocator {

/// Which blocks of a device other processes were told of, and the file descriptors that stand for
/// what lies behind them.
///
/// A block is shared from the first time that PyTorch asks until its free: PyTorch keeps it used
/// until every receiver has let go of it. So long it is pinned, and the descriptors are open; they
/// are closed before their memory is given back, which they would keep alive. Thread-safe.
class Exports {
 public:
  /// Both outlive it.
  Exports(Core& core, RuntimeDriver& driver) : core_(core), driver_(driver) {}

  /// What tells another process of the used block, and where it begins in it. Throws c10::Error
  /// when the driver does not share such memory.
  SharedHandles share(Address block, std::size_t& offset);

  /// The block is being freed. Costs one relaxed load while nothing is shared.
  void end(Address block) noexcept {
    if (blocks_shared_.load(std::memory_order_relaxed) != 0) forget(block);
  }

  /// Whether the descriptor is one of them.
  bool has(std::int32_t descriptor) const;

  /// For holding it over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Open {
    std::int32_t descriptor = -1;
    std::uint32_t serial = 0;
    std::size_t blocks = 0;  // that lie on it
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
