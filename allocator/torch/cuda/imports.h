// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "allocator/torch/cuda/runtime_driver.h"
#include "allocator/torch/cuda/shared_handles.h"

namespace cinch::allocator {

/// Other processes' memory, mapped here. What is asked for again while somebody still has it is
/// mapped once. Thread-safe.
class Imports {
 public:
  /// The memory that `text` names, for use on the driver's device; unmapped when the last pointer
  /// to it goes, after all that the device was given so far. `shared` is what the text says. Throws
  /// c10::Error. The driver outlives all of it.
  std::shared_ptr<void> open(const std::string& text, const SharedHandles& shared, int device,
                             RuntimeDriver& driver);

  std::mutex& mutex() noexcept { return mutex_; }

 private:
  class Mapping;

  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::weak_ptr<Mapping>> mappings_;
};

}  // namespace cinch::allocator
