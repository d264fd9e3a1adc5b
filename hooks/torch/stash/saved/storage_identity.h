// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <c10/core/Storage.h>

namespace cinch::hooks {

/// Identifies the memory that a storage had when it was saved. A program may resize a storage, give
/// it other memory or share its memory with another process; the StorageImpl stays the same. Holds
/// the address only, as every entry has one: the entry knows the size, and only memory of the
/// device's ordinary allocator is saved here.
class StorageIdentity {
 public:
  StorageIdentity() = default;
  /// @pre `storage` is defined
  explicit StorageIdentity(const c10::Storage& storage) : data_(storage.data_ptr().get()) {}

  /// Whether `storage` still is that memory, of `bytes` bytes. @pre `storage` is defined
  bool is(const c10::Storage& storage, std::size_t bytes) const;

 private:
  const void* data_ = nullptr;
};

}  // namespace cinch::hooks
