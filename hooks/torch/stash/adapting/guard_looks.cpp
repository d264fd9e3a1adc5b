// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/guard_looks.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/figures/entry_rows.h"
#include "hooks/torch/stash/figures/listeners.h"
#include "policy/adapting/part.h"

namespace cinch::hooks {

GuardLooks::GuardLooks(const policy::GuardSettings& settings, EntryLists& lists,
                       const Adaptation& adaptation, BufferPool& buffers)
    : lists_(lists), adaptation_(adaptation), buffers_(buffers), guard_(settings) {
  register_fork_lock(guard_.mutex());
}

void GuardLooks::begin(Entry& entry) {
  entry.compared = keeps_all_.load(std::memory_order_relaxed) && entry.plan().approximates();
  const Guard::Kept kept = this->kept(entry);
  entry.watched = entry.plan().candidates.front().approximates &&
                  guard_.wants(entry.entry_class->members[entry.member], entry.raw_bytes,
                               entry.step, lists_.planned.raw_at_peak(), kept) &&
                  if_memory_allows([&] { guard_.watch(entry); });
  if (entry.watched) entry.sample_bytes = std::max(entry.sample_bytes, kept.bytes);
}

// What a look at the entry would keep, and what looks may keep in this step. Of a device's entries
// all is kept: parts are copied by the host.
// pre: the stash's lock is held
Guard::Kept GuardLooks::kept(const Entry& entry) const {
  const policy::Director* director = adaptation_.director();
  Guard::Kept kept;
  kept.bytes = entry.raw_bytes;
  const auto room = director == nullptr ? std::nullopt : director->room_for_guard();
  if (!room || entry.device != nullptr) return kept;
  kept.room = *room;
  const std::size_t part = policy::part_to_keep(entry.raw_bytes, *room);
  if (part != 0) kept.bytes = part;
  return kept;
}

void GuardLooks::stop_watching(Entry& entry) noexcept {
  for (const Use* use = entry.first_use; use != nullptr && entry.watched; use = use->next) {
    guard_.forget(*use);
  }
  entry.watched = false;
}

void GuardLooks::keep_sample(Entry& entry, c10::Storage& exact) noexcept {
  const bool is_judged = entry.watched || entry.tried;
  if (!is_judged && !entry.compared) return;
  if (!if_memory_allows([&] { entry.sample = std::make_unique<GuardSample>(); })) return;
  entry.sample->values_measured = !is_judged;
  if (!entry.compared && entry.sample_bytes < entry.raw_bytes) {
    const bool sampled = if_memory_allows([&] { sample_part(entry, exact); });
    if (!sampled || !entry.sample->exact) entry.sample = nullptr;
    return;
  }
  entry.sample->exact = std::move(exact);
  exact = {};
}

// Leaves the sample without values if there is no memory. pre: entry.mutex() is held
void GuardLooks::sample_part(Entry& entry, const c10::Storage& exact) {
  const std::size_t bytes = entry.sample_bytes;
  c10::DataPtr buffer = buffers_.take(bytes);
  if (buffer.get() == nullptr) return;
  const ExactPart part(entry.raw_bytes, bytes, entry.id);
  part.take(exact.data(), {static_cast<std::byte*>(buffer.get()), bytes});
  entry.sample->part = part;
  entry.sample->exact = storage_of(std::move(buffer), bytes);
}

std::unique_ptr<GuardSample> GuardLooks::take_sample(Entry& entry) {
  stop_watching(entry);
  return std::move(entry.sample);
}

bool GuardLooks::wants_error(Entry& entry) noexcept {
  return entry.sample != nullptr && !std::exchange(entry.sample->values_measured, true);
}

void GuardLooks::values_measured(Entry& entry, const ValueError& error) {
  totals_of(entry).checked(error.relative);
  entry.row->checked(error.relative);
  // After trials: even large errors of values are small in gradients that sum over many of them.
  const bool tried = entry.plan().candidates[entry.candidate].tried;
  const bool too_far = tried ? error.non_finite != 0 : guard_.too_far(error);
  if (too_far) {
    be_careful(entry, "values", error.relative, guard_.settings().max_relative_error,
               error.non_finite != 0);
  }
}

void GuardLooks::gradient_measured(Entry& entry, double error) noexcept {
  totals_of(entry).gradient_checked(error);
  entry.row->gradient_checked(error);
  if (guard_.too_far(error)) {
    be_careful(entry, "gradients", error, guard_.settings().max_gradient_error, false);
  }
}

// Has later entries of this class member held more precisely.
void GuardLooks::be_careful(Entry& entry, const char* what, double error, double limit,
                            bool broken) noexcept {
  {
    const std::lock_guard lock(lists_.mutex);
    EntryClass& of_kind = *entry.entry_class;
    auto& caution = of_kind.members[entry.member].caution;
    // One check may find both values and gradients too far off: raise the caution once only.
    if (caution != entry.caution || caution == policy::most_caution) return;
    caution = broken ? policy::most_caution : static_cast<std::uint8_t>(caution + 1);
    note_caution(entry, what, error, limit, broken);
  }
  OpTotals& row = totals_of(entry);
  row.moves.fetch_add(1, std::memory_order_relaxed);
  tell(telemetry::EventKind::guard, "%s %s, number %u of its shape: %s: %s off by %.2g",
       row.op.c_str(), row.operand.c_str(), entry.member + 1, row.codec.c_str(), what, error);
  if (broken) {
    std::fprintf(stderr,
                 "cinch: guard: %s %s: %s made finite values infinite or NaN, which is a defect of "
                 "Cinch; held losslessly from now on\n",
                 row.op.c_str(), row.operand.c_str(), row.codec.c_str());
  } else {
    std::fprintf(
        stderr,
        "cinch: guard: %s %s, number %u of its shape: %s put the %s off by %.2g times their "
        "size, above %.2g; held more precisely from now on\n",
        row.op.c_str(), row.operand.c_str(), entry.member + 1, row.codec.c_str(), what, error,
        limit);
  }
}

// pre: the stash's lock is held, entry is encoded
void GuardLooks::note_caution(const Entry& entry, const char* what, double error, double limit,
                              bool broken) noexcept {
  char detail[160];
  std::snprintf(detail, sizeof detail,
                broken ? "%s off beyond all bounds (%.2g, limit %.2g): held losslessly"
                       : "%s off by %.2g, limit %.2g: held more precisely",
                what, error, limit);
  if_memory_allows([&] { lists_.timeline.decided("guard", entry.row->name.title(), detail); });
}

}  // namespace cinch::hooks
