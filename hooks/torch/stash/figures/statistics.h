// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/telemetry/report.h"
#include "hooks/torch/stash/saved/verdict.h"

namespace cinch::hooks {

/// Totals over the run. Relaxed atomics.
struct Totals {
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> raw_bytes{0};
  std::atomic<std::uint64_t> stored_bytes{0};
  std::atomic<std::uint64_t> encode_nanoseconds{0};
  std::atomic<std::uint64_t> decode_nanoseconds{0};
  // The guard's findings.
  std::atomic<std::uint64_t> checks{0};
  std::atomic<double> worst_relative_error{0};
  std::atomic<double> worst_gradient_error{0};

  /// Removes a storage that is now held in another way.
  void take_back(std::uint64_t raw, std::uint64_t stored) noexcept {
    count.fetch_sub(1, std::memory_order_relaxed);
    raw_bytes.fetch_sub(raw, std::memory_order_relaxed);
    stored_bytes.fetch_sub(stored, std::memory_order_relaxed);
  }

  /// Adds a storage.
  void add(std::uint64_t raw, std::uint64_t stored, std::uint64_t nanoseconds) noexcept {
    count.fetch_add(1, std::memory_order_relaxed);
    raw_bytes.fetch_add(raw, std::memory_order_relaxed);
    stored_bytes.fetch_add(stored, std::memory_order_relaxed);
    encode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  }

  /// The guard measured values.
  void checked(double relative_error) noexcept;

  /// The guard measured gradients.
  void gradient_checked(double relative_error) noexcept;
};

/// Totals of one (op, operand, codec); a row of the report.
struct OpTotals : Totals {
  std::string op;
  std::string operand;
  std::string codec;
  std::atomic<std::uint64_t> moves{0};         ///< times the guard had entries held more precisely
  std::atomic<const OpTotals*> next{nullptr};  ///< the row that was created after this one
};

constexpr double to_seconds(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

class EntryRows;

/// Counters for the report. Thread-safe; those on the hot path are relaxed atomics.
class Statistics {
 public:
  Statistics();
  ~Statistics();

  /// The row of (op, operand, codec), created when new; valid forever.
  OpTotals& op(std::string_view op, std::string_view operand, std::string_view codec);

  /// The oldest row, null while there is none; the others follow by `next`. Takes no lock.
  const OpTotals* first() const noexcept { return first_.load(std::memory_order_acquire); }

  std::uint64_t nanoseconds_spent() const noexcept {
    return nanoseconds_.load(std::memory_order_relaxed);
  }
  /// The part of it that adapted() added.
  std::uint64_t nanoseconds_adapting() const noexcept {
    return adapting_nanoseconds_.load(std::memory_order_relaxed);
  }
  /// Bytes freed by one rescue, or by all rescues.
  struct Rescue {
    std::uint64_t encoded = 0;  ///< by encoding early
    std::uint64_t harder = 0;   ///< by encoding settled entries in fewer bits
    std::uint64_t moved = 0;    ///< by moving to the host's memory
    std::uint64_t all() const noexcept { return encoded + harder + moved; }
  };
  /// How often a rescue freed memory.
  std::uint64_t rescues() const noexcept { return rescues_.load(std::memory_order_relaxed); }
  Rescue rescued() const noexcept {
    const auto bytes = [](const Amount& of) { return of.bytes.load(std::memory_order_relaxed); };
    return {bytes(rescued_.encoded), bytes(rescued_.harder), bytes(rescued_.moved)};
  }

  /// Bytes that other processes gave back when this one had run out of memory.
  std::uint64_t given_by_others() const noexcept {
    return given_by_others_.load(std::memory_order_relaxed);
  }
  void given(std::uint64_t bytes) noexcept {
    given_by_others_.fetch_add(bytes, std::memory_order_relaxed);
  }

  /// A tensor was left to PyTorch.
  void declined(Verdict verdict, std::size_t bytes) noexcept;

  /// A rescue freed memory.
  void rescued(const Rescue& by) noexcept;

  /// `bytes` were moved from a device to the host's memory.
  void offloaded(std::uint64_t bytes) noexcept { offloaded_.add(bytes); }

  /// A copy back was enqueued. @param ahead Whether before backward asked
  void fetched(bool ahead) noexcept {
    fetches_.fetch_add(1, std::memory_order_relaxed);
    if (ahead) fetches_ahead_.fetch_add(1, std::memory_order_relaxed);
  }

  /// The host waited for an encoded size that only the device knew.
  void waited_for_size() noexcept { size_waits_.fetch_add(1, std::memory_order_relaxed); }

  /// A storage was taken, but not compressed.
  void passed_through(std::string_view why, std::size_t bytes) noexcept;

  /// Takes one passed_through() back: the storage was compressed later.
  void compressed_after_all(std::string_view why, std::size_t bytes);

  /// Adds wall time that the program spent in Cinch.
  void spent(std::uint64_t nanoseconds) noexcept {
    nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }

  /// Adds the part of it for an adaptive policy's looks, trials and decisions.
  void adapted(std::uint64_t nanoseconds) noexcept {
    adapting_nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }

  /// Resident memory of the process when it saved its first tensor; 0 before.
  std::uint64_t rss_at_start() const noexcept {
    return rss_at_start_.load(std::memory_order_relaxed);
  }
  void set_rss_at_start(std::uint64_t bytes) noexcept {
    rss_at_start_.store(bytes, std::memory_order_relaxed);
  }

  /// The lock of `op` and `passed_through`, for forks.
  std::mutex& mutex() noexcept { return mutex_; }

  EntryRows& entries() noexcept { return *entries_; }

  /// Fills `seconds_in_cinch`, `seconds_adapting`, `passed_through`, `ops` and `entries`.
  void fill(telemetry::Report& report) const;

 private:
  struct Amount {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> count{0};

    void add(std::uint64_t more) noexcept {
      bytes.fetch_add(more, std::memory_order_relaxed);
      count.fetch_add(1, std::memory_order_relaxed);
    }
  };
  const std::unique_ptr<EntryRows> entries_;
  mutable std::mutex mutex_;
  std::deque<OpTotals> ops_;
  std::atomic<const OpTotals*> first_{nullptr};
  std::map<std::string, telemetry::Report::PassedThrough, std::less<>> passed_through_;
  std::array<Amount, verdict_count> declined_;
  std::atomic<std::uint64_t> given_by_others_{0};
  std::atomic<std::uint64_t> rescues_{0};
  struct {
    Amount encoded;
    Amount harder;
    Amount moved;
  } rescued_;  // each counts the rescues that used it
  Amount offloaded_;
  std::atomic<std::uint64_t> fetches_{0};
  std::atomic<std::uint64_t> fetches_ahead_{0};
  std::atomic<std::uint64_t> size_waits_{0};
  std::atomic<std::uint64_t> rss_at_start_{0};
  std::atomic<std::uint64_t> nanoseconds_{0};
  std::atomic<std::uint64_t> adapting_nanoseconds_{0};
};

}  // namespace cinch::hooks
