// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/saved/words.h"
#include "policy/policy.h"

namespace cinch::hooks {

/// The names of the operator and operand that saved the use; empty if they are unknown.
const SiteNames& names_of(const Use& use);

/// Whether `use` counts for a policy. @param derives Whether the policy derives values: else uses
/// that recipes made are for another policy, which a dry run tries.
inline bool counts(const Use& use, bool derives) {
  return !use.is_recipes || derives;
}

/// Geometries as policies see them, for as long as this lives.
class Views {
 public:
  policy::Geometry of(const Geometry& geometry) {
    const auto sizes = geometry.sizes();
    const c10::DimVector& strides = strides_.emplace_back(geometry.strides());
    return {{sizes.data(), sizes.size()}, {strides.data(), strides.size()}, geometry.offset()};
  }

  /// Contiguous rows from a storage's first element on.
  policy::Geometry of_rows(std::int64_t rows, std::int64_t row) {
    const c10::DimVector& sizes = sizes_.emplace_back(c10::DimVector{rows, row});
    const c10::DimVector& strides = strides_.emplace_back(c10::DimVector{row, 1});
    return {{sizes.data(), sizes.size()}, {strides.data(), strides.size()}, 0};
  }

 private:
  std::deque<c10::DimVector> sizes_;
  std::deque<c10::DimVector> strides_;
};

/// An entry as policies see it, for as long as this and the entry live.
struct DescribedEntry {
  /// @param derives See counts()
  DescribedEntry(const Entry& of, bool derives);
  DescribedEntry(const DescribedEntry&) = delete;
  DescribedEntry& operator=(const DescribedEntry&) = delete;

  Views views;
  std::vector<policy::Use> uses;
  policy::EntryDescription entry;
};

/// Sets `key` to what tells the description of `entry` from others. @param derives See counts()
void set_class_key(const Entry& entry, bool derives, Words& key);

}  // namespace cinch::hooks
