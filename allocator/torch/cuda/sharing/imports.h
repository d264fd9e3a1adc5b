// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "allocator/torch/cuda/driver/runtime_driver.h"
#include "allocator/torch/cuda/sharing/shared_handles.h"

namespace cinch::allocator {

/// Memory of other processes, mapped in this one. Memory that is opened again while somebody still
/// has it is mapped once. Thread-safe.
class Imports {
 public:
  /// Maps the memory that `text` names for use on the driver's device. It is unmapped when the last
  /// pointer to it goes, after all work that the device had by then. `shared` is `text`, parsed.
  /// Throws c10::Error. @pre the driver outlives the memory
  std::shared_ptr<void> open(const std::string& text, const SharedHandles& shared, int device,
                             RuntimeDriver& driver);

  std::mutex& mutex() noexcept { return mutex_; }

 private:
  class Mapping;

  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::weak_ptr<Mapping>> mappings_;
};

}  // namespace cinch::allocator
