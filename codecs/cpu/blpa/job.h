// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/blpa.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// The channels' grids. Planes of a few elements are coded with tables over the elements of all
/// channels instead, in logical order, which repeat from sample to sample.
class BlpaChannels {
 public:
  /// Largest plane, in elements, that is coded with tables.
  static constexpr std::int64_t kSmallPlane = 31;

  /// Allocates from `buffer`. @return false when memory ran out
  bool prepare(const PlaneLayout& layout, Buffer& buffer) noexcept {
    count_ = layout.channels();
    // Tables need elements in logical order, in memory or as gathered from it.
    const bool in_order = layout.is_contiguous() || !has_dense_planes(layout);
    const std::int64_t period = count_ * layout.plane_size();
    period_ = in_order && layout.plane_size() <= kSmallPlane && period <= kMostPeriod ? period : 0;
    auto* const room =
        buffer.get<std::byte>(count_ * (sizeof(BlpaGrid) + 1) + 2 * period_ * 4 + 16);
    if (room == nullptr) return false;
    tables_[0] = reinterpret_cast<float*>(room);
    tables_[1] = tables_[0] + period_;
    grids_ = reinterpret_cast<BlpaGrid*>(tables_[1] + period_);
    bad_ = reinterpret_cast<std::uint8_t*>(grids_ + count_);
    for (std::int64_t c = 0; c < count_; ++c) bad_[c] = 0;
    return true;
  }

  std::int64_t count() const noexcept { return count_; }
  BlpaGrid* grids() const noexcept { return grids_; }

  /// Marks channel c as one that can't be held. Any thread may call this.
  void refuse(std::int64_t c) const noexcept {
    std::atomic_ref(bad_[c]).store(1, std::memory_order_relaxed);
  }
  /// Poisons the marked channels. @return whether there is one
  bool poison_refused() noexcept {
    bool any = false;
    for (std::int64_t c = 0; c < count_; ++c) {
      if (bad_[c] == 0) continue;
      grids_[c] = poisoned_grid();
      any = true;
    }
    return any;
  }
  bool any_poisoned() const noexcept {
    for (std::int64_t c = 0; c < count_; ++c) {
      if (grids_[c] == poisoned_grid()) return true;
    }
    return false;
  }

  /// Fills the tables with f(grid, first number, second number). A poisoned channel disables them.
  template <typename F>
  void tabulate(std::int64_t plane_size, const F& f) noexcept {
    if (period_ != 0 && any_poisoned()) period_ = 0;
    for (std::int64_t i = 0; i < period_; ++i) {
      f(grids_[i / plane_size], tables_[0][i], tables_[1][i]);
    }
  }
  /// Elements of the tables; 0 if there are none.
  std::int64_t period() const noexcept { return period_; }
  const float* first_table() const noexcept { return tables_[0]; }
  const float* second_table() const noexcept { return tables_[1]; }

 private:
  static constexpr std::int64_t kMostPeriod = 1 << 17;

  std::int64_t count_ = 0;
  std::int64_t period_ = 0;
  BlpaGrid* grids_ = nullptr;
  std::uint8_t* bad_ = nullptr;
  float* tables_[2] = {};
};

/// Facts that all tasks of one encode or decode share.
struct BlpaJob {
  const Description& what;
  const BlpaParameters& parameters;
  const BlpaChannels& channels;
  BlpaSections sections;
  bool has_signs;
  bool refuses;  ///< encode only: find the channels that can't be held
  Reads reads;   ///< decode only
};

/// Elements that are coded at a time; their intermediate forms fit into the L1 cache.
inline constexpr std::int64_t kBlpaStretch = 2048;

}  // namespace cinch::codecs::cpu
