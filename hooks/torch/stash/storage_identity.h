// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <c10/core/Storage.h>

namespace cinch::hooks {

/// Which memory a storage was when it was saved. A program may resize a storage, give it other
/// memory or share its memory with another process; the StorageImpl stays the same one. Small, as
/// every entry has one: the size is the entry's, and who frees the memory was the device's ordinary
/// allocator, or it would not have been saved here.
class StorageIdentity {
 public:
  StorageIdentity() = default;
  /// @pre `storage` is defined
  explicit StorageIdentity(const c10::Storage& storage) : data_(storage.data_ptr().get()) {}

  /// Whether `storage`, which had `bytes` bytes then, is that memory still. @pre it is defined
  bool is(const c10::Storage& storage, std::size_t bytes) const;

 private:
  const void* data_ = nullptr;
};

}  // namespace cinch::hooks
