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
#include "hooks/torch/stash/figures/statistics.h"

namespace cinch::hooks {

/// What identifies a storage of a forward, which training saves again in every step.
struct EntryName {
  std::string op;
  std::string operand;
  std::string type;               ///< "float32"
  std::size_t element_bytes = 0;  ///< of that type; 0 for the row of all others
  std::string shape;              ///< "8x64x56x56"
  std::uint32_t place = 0;        ///< number among equals, from 1; 0 for the row of all others
  std::string savers;             ///< operators and operands of all its uses

  /// For people, in the report's terms.
  std::string title() const {
    return op + ' ' + operand + ' ' + shape + " #" + std::to_string(place);
  }
};

/// A row of the report's `entries`: totals over the run for storages of one name. Counters are
/// relaxed atomics; module_names.cpp fills `where`.
struct EntryRow : Totals {
  EntryName name;
  std::atomic<const OpTotals*> codec{nullptr};  ///< whose codec held it last

  /// Set by the first thread that looks for the module; never unset.
  std::atomic<bool> looked_for{false};
  struct Where {
    std::string module;    ///< "layer1.0.conv1"; "" where it isn't known
    std::string relation;  ///< "own": the operator works with the module's parameter; else "after"
  };
  Where where;  ///< under EntryRows' lock

  /// Adds one storage that is held by the codec of `by`.
  void add(const OpTotals& by, std::uint64_t raw, std::uint64_t stored,
           std::uint64_t nanoseconds) noexcept {
    codec.store(&by, std::memory_order_relaxed);
    Totals::add(raw, stored, nanoseconds);
  }
};

/// All rows of the process. Thread-safe. After `most_rows`, new entries share one row.
class EntryRows {
 public:
  static constexpr std::size_t most_rows = 10000;

  /// The row of a storage, created when new; valid forever.
  EntryRow& row(EntryName name);

  /// Sets `row.where`.
  void place(EntryRow& row, EntryRow::Where where);

  /// Fills `entries`, most raw bytes first.
  void fill(telemetry::Report& report) const;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  mutable std::mutex mutex_;
  std::deque<EntryRow> rows_;
  std::unordered_map<std::string, EntryRow*> by_key_;
  EntryRow* rest_ = nullptr;
};

}  // namespace cinch::hooks
