// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/entry_rows.h"

#include <algorithm>

#include <c10/core/ScalarType.h>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {
namespace {

std::string shape_of(const Geometry& geometry) {
  std::string text;
  for (const std::int64_t size : geometry.sizes()) {
    text += (text.empty() ? "" : "x") + std::to_string(size);
  }
  return text.empty() ? "scalar" : text;
}

/// The use that names the row: the first that reads values, else the first.
const Use& telling_use(const Entry& entry) {
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->reads == codecs::Reads::values) return *use;
  }
  return *entry.first_use;
}

}  // namespace

EntryRow& EntryRows::row(const Entry& entry) {
  const Use& use = telling_use(entry);
  const OpTotals& names = *entry.plan().kept;
  const std::string type(c10::getDtypeNames(use.type).first);  // a view since torch 2.14
  const std::string shape = shape_of(use.geometry);
  const std::uint32_t place = entry.member + 1U;
  std::string key = type + '\n' + shape + '\n' + std::to_string(place);
  for (const Use* each = entry.first_use; each != nullptr; each = each->next) {
    const SiteNames* saver = each->site->names();
    if (saver != nullptr) key += '\n' + saver->op + '\n' + saver->operand;
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = by_key_.find(key); known != by_key_.end()) return *known->second;
  if (rows_.size() >= most_rows) {
    if (rest_ == nullptr) {
      rest_ = &rows_.emplace_back();
      rest_->op = "(all others)";
      rest_->looked_for = true;
    }
    return *rest_;
  }
  EntryRow& row = rows_.emplace_back();
  row.op = names.op;
  row.operand = names.operand;
  row.type = type;
  row.shape = shape;
  row.place = place;
  row.element_bytes = c10::elementSize(use.type);
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
    entry.op = row.op;
    entry.operand = row.operand;
    entry.codec = codec == nullptr ? "" : codec->codec;
    entry.type = row.type;
    entry.shape = row.shape;
    entry.place = row.place;
    entry.count = row.count;
    entry.raw_bytes = row.raw_bytes;
    entry.stored_bytes = row.stored_bytes;
    if (row.element_bytes != 0 && row.raw_bytes != 0) {
      entry.bits_per_element = static_cast<double>(row.stored_bytes) * 8 *
                               static_cast<double>(row.element_bytes) /
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
