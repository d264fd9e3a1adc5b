// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>
#include <c10/util/DimVector.h>

#include "codecs/codec.h"
#include "hooks/torch/site.h"

namespace cinch::hooks {

struct Plan;

/// Sizes and strides (in elements) of a tensor over its storage.
struct Geometry {
  c10::DimVector sizes;
  c10::DimVector strides;
  std::int64_t offset = 0;
};

/// One saving of a storage: who saved it, and as what. Owned by the hook that autograd holds.
struct Use {
  Site* site = nullptr;
  bool is_output = false;
  c10::ScalarType type = c10::ScalarType::Undefined;
  Geometry geometry;
  /// For max-pool indices: extents of the pooled input's plane; zeros where unknown.
  std::array<std::int64_t, 3> index_extent = {0, 0, 0};
  /// What backward reads of it; settled together with the entry's plan.
  codecs::Reads reads = codecs::Reads::values;
};

/// One storage in the stash (design.md §3, the sole-owner rule).
///
/// `holders`, `uses`, `pending_at` and `plan` belong to the stash's lock, the rest to `mutex`,
/// which is taken before the stash's.
struct Entry {
  enum class State : std::uint8_t {
    pending,  ///< raw, waiting until nobody else owns the storage
    kept,     ///< raw for good
    encoded,
    dropped,  ///< backward reads no value of it
  };

  std::mutex mutex;
  State state = State::pending;
  c10::Storage raw;  ///< while pending or kept
  c10::DataPtr encoded;
  std::size_t encoded_bytes = 0;
  std::size_t candidate = 0;  ///< which of the plan's candidates encoded it
  /// What was decoded and is still held by somebody, by what is read of it.
  std::array<c10::weak_intrusive_ptr<c10::StorageImpl>, codecs::kReadsCount> decoded = {
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>())};

  std::size_t raw_bytes = 0;
  std::uint32_t id = 0;
  std::uint64_t step = 0;
  Geometry cover;  ///< of the base of views; empty sizes when the first use is no view

  std::vector<Use*> uses;
  std::shared_ptr<const Plan> plan;
  int holders = 0;                 ///< uses, and whoever works on it
  std::ptrdiff_t pending_at = -1;  ///< position in the stash's pending list; -1 when not in it
};

}  // namespace cinch::hooks
