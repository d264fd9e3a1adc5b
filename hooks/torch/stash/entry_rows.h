// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "agent/telemetry/report.h"
#include "hooks/torch/stash/statistics.h"

namespace cinch::hooks {

struct Entry;

/// Totals over the run for what training saves again in every step: one storage of a forward, told
/// from others by its operator, operand, type, shape and place among its likes. A row of the
/// report's `entries`. Counters are relaxed atomics; `where` is module_names.cpp's.
struct EntryRow : Totals {
  std::string op;
  std::string operand;
  std::string type;             ///< "float32"
  std::string shape;            ///< "8x64x56x56"
  std::uint32_t place = 0;      ///< number among its likes, from 1; 0 for the row of all the rest
  std::size_t element_bytes{};  ///< 0 where rows are merged
  std::atomic<const OpTotals*> codec{nullptr};  ///< whose codec held it last

  /// Set by whoever looks for the module first; never unset.
  std::atomic<bool> looked_for{false};
  struct Where {
    std::string module;    ///< "layer1.0.conv1"; "" where it isn't known
    std::string relation;  ///< "own": the module's parameter is the operator's; else "after"
  };
  Where where;  ///< under EntryRows' lock

  // Under the stash's lock: the last choice of an adaptive policy's.
  const OpTotals* chosen = nullptr;
  std::size_t chosen_bytes = 0;

  /// What people can find again among the report's entries.
  std::string title() const {
    return op + ' ' + operand + ' ' + shape + " #" + std::to_string(place);
  }

  /// One more storage, held as `by` says.
  void add(const OpTotals& by, std::uint64_t raw, std::uint64_t stored,
           std::uint64_t nanoseconds) noexcept {
    codec.store(&by, std::memory_order_relaxed);
    Totals::add(raw, stored, nanoseconds);
  }
};

/// All rows of the process. Thread-safe. Shapes that never repeat end up in one row together.
class EntryRows {
 public:
  static constexpr std::size_t most_rows = 10000;

  /// The row of `entry`, created when new; valid forever. @pre entry is planned
  EntryRow& row(const Entry& entry);

  /// Says where a row belongs, once.
  void place(EntryRow& row, EntryRow::Where where);

  /// Fills `entries`, most raw bytes first.
  void fill(telemetry::Report& report) const;

  /// For forks.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  mutable std::mutex mutex_;
  std::deque<EntryRow> rows_;
  std::unordered_map<std::string, EntryRow*> by_key_;
  EntryRow* rest_ = nullptr;
};

}  // namespace cinch::hooks
