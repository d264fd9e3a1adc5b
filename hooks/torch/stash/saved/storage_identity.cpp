// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/saved/storage_identity.h"

#include "hooks/torch/stash/saved/verdict.h"

namespace cinch::hooks {

bool StorageIdentity::is(const c10::Storage& storage, std::size_t bytes) const {
  return storage.nbytes() == bytes && storage.data_ptr().get() == data_ &&
         from_ordinary_allocator(*storage.unsafeGetStorageImpl());
}

}  // namespace cinch::hooks
