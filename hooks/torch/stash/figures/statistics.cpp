// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/figures/statistics.h"

#include <algorithm>

#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/figures/entry_rows.h"

namespace cinch::hooks {
namespace {

void raise(std::atomic<double>& worst, double value) {
  double before = worst.load(std::memory_order_relaxed);
  while (value > before && !worst.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void Totals::checked(double relative_error) noexcept {
  checks.fetch_add(1, std::memory_order_relaxed);
  raise(worst_relative_error, relative_error);
}

void Totals::gradient_checked(double relative_error) noexcept {
  raise(worst_gradient_error, relative_error);
}

Statistics::Statistics() : entries_(std::make_unique<EntryRows>()) {}

Statistics::~Statistics() = default;

OpTotals& Statistics::op(std::string_view op, std::string_view operand, std::string_view codec) {
  const std::lock_guard lock(mutex_);
  for (OpTotals& row : ops_) {
    if (row.op == op && row.operand == operand && row.codec == codec) return row;
  }
  OpTotals* const before = ops_.empty() ? nullptr : &ops_.back();
  std::string names[] = {std::string(op), std::string(operand), std::string(codec)};
  OpTotals& row = ops_.emplace_back();
  row.op = std::move(names[0]);
  row.operand = std::move(names[1]);
  row.codec = std::move(names[2]);
  (before == nullptr ? first_ : before->next).store(&row, std::memory_order_release);
  return row;
}

void Statistics::rescued(const Rescue& by) noexcept {
  rescues_.fetch_add(1, std::memory_order_relaxed);
  if (by.encoded != 0) rescued_.encoded.add(by.encoded);
  if (by.harder != 0) rescued_.harder.add(by.harder);
  if (by.moved != 0) rescued_.moved.add(by.moved);
}

void Statistics::declined(Verdict verdict, std::size_t bytes) noexcept {
  declined_[static_cast<std::size_t>(verdict)].add(bytes);
}

void Statistics::passed_through(std::string_view why, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if_memory_allows([&] {
    auto it = passed_through_.find(why);
    if (it == passed_through_.end()) {
      telemetry::Report::PassedThrough row;
      row.reason = why;
      it = passed_through_.try_emplace(std::string(why), std::move(row)).first;
    }
    it->second.bytes += bytes;
    it->second.count += 1;
  });
}

void Statistics::compressed_after_all(std::string_view why, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto it = passed_through_.find(why);
  if (it == passed_through_.end() || it->second.count == 0) return;
  it->second.bytes -= bytes;
  if (--it->second.count == 0) passed_through_.erase(it);
}

void Statistics::fill(telemetry::Report& report) const {
  entries_->fill(report);
  const std::lock_guard lock(mutex_);
  report.seconds_in_cinch = to_seconds(nanoseconds_spent());
  report.seconds_adapting = to_seconds(adapting_nanoseconds_.load(std::memory_order_relaxed));
  const auto times = [](const Amount& of) { return of.count.load(std::memory_order_relaxed); };
  const Rescue all = rescued();
  report.rescues = rescues();
  report.rescues_early = times(rescued_.encoded);
  report.rescues_harder = times(rescued_.harder);
  report.rescues_by_offload = times(rescued_.moved);
  report.rescued_bytes = all.encoded;
  report.rescued_harder_bytes = all.harder;
  report.rescued_by_offload_bytes = all.moved;
  report.given_by_others_bytes = given_by_others();
  report.offloads = offloaded_.count.load(std::memory_order_relaxed);
  report.fetches = fetches_.load(std::memory_order_relaxed);
  report.fetches_ahead = fetches_ahead_.load(std::memory_order_relaxed);
  report.size_waits = size_waits_.load(std::memory_order_relaxed);
  report.offloaded_bytes = offloaded_.bytes.load(std::memory_order_relaxed);
  for (const auto& [why, amount] : passed_through_) report.passed_through.push_back(amount);
  for (std::size_t i = 0; i < verdict_count; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    const std::uint64_t count = declined_[i].count.load(std::memory_order_relaxed);
    if (count == 0 || reason(verdict).empty()) continue;
    report.passed_through.push_back(
        {std::string(reason(verdict)), declined_[i].bytes.load(std::memory_order_relaxed), count});
  }
  std::stable_sort(report.passed_through.begin(), report.passed_through.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  for (const OpTotals& row : ops_) {
    if (row.count == 0) continue;
    report.ops.push_back({row.op, row.operand, row.codec, row.count, row.raw_bytes,
                          row.stored_bytes, to_seconds(row.encode_nanoseconds),
                          to_seconds(row.decode_nanoseconds), row.checks, row.moves,
                          row.worst_relative_error, row.worst_gradient_error});
  }
  std::stable_sort(report.ops.begin(), report.ops.end(),
                   [](const auto& a, const auto& b) { return a.raw_bytes > b.raw_bytes; });
}

}  // namespace cinch::hooks
