// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/figures/entry_rows.h"

#include <algorithm>
#include <utility>

namespace cinch::hooks {

EntryRow& EntryRows::row(EntryName name) {
  const std::string key =
      name.type + '\n' + name.shape + '\n' + std::to_string(name.place) + name.savers;
  const std::lock_guard lock(mutex_);
  if (const auto known = by_key_.find(key); known != by_key_.end()) return *known->second;
  if (rows_.size() >= most_rows) {
    if (rest_ == nullptr) {
      rest_ = &rows_.emplace_back();
      rest_->name.op = "(all others)";
      rest_->looked_for = true;
    }
    return *rest_;
  }
  EntryRow& row = rows_.emplace_back();
  row.name = std::move(name);
  by_key_.emplace(key, &row);
  return row;
}

void EntryRows::place(EntryRow& row, EntryRow::Where where) {
  const std::lock_guard lock(mutex_);
  row.where = std::move(where);
}

void EntryRows::fill(telemetry::Report& report) const {
  const std::lock_guard lock(mutex_);
  for (const EntryRow& row : rows_) {
    if (row.count == 0) continue;
    telemetry::Report::Entry& entry = report.entries.emplace_back();
    const OpTotals* codec = row.codec;
    entry.module = row.where.module;
    entry.relation = row.where.relation;
    entry.op = row.name.op;
    entry.operand = row.name.operand;
    entry.codec = codec == nullptr ? "" : codec->codec;
    entry.type = row.name.type;
    entry.shape = row.name.shape;
    entry.place = row.name.place;
    entry.count = row.count;
    entry.raw_bytes = row.raw_bytes;
    entry.stored_bytes = row.stored_bytes;
    if (row.name.element_bytes != 0 && row.raw_bytes != 0) {
      entry.bits_per_element = static_cast<double>(row.stored_bytes) * 8 *
                               static_cast<double>(row.name.element_bytes) /
                               static_cast<double>(row.raw_bytes);
    }
    entry.encode_seconds = to_seconds(row.encode_nanoseconds);
    entry.decode_seconds = to_seconds(row.decode_nanoseconds);
    entry.guard_checks = row.checks;
    entry.worst_relative_error = row.worst_relative_error;
    entry.worst_gradient_error = row.worst_gradient_error;
  }
  std::ranges::stable_sort(report.entries, std::ranges::greater{},
                           &telemetry::Report::Entry::raw_bytes);
}

}  // namespace cinch::hooks
