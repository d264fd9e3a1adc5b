// SPDX-License-Identifier: Apache-2.0
// What the stash does for the guard: measures watched entries, and holds their kind more precisely.
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry_rows.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/listeners.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

namespace {

/// The same for storages of a device; the host waits for it. Nothing where that can't be done.
/// @pre entry.mutex() is held and the current stream waits for `decoded`
std::optional<ValueError> value_error_on_device(const Entry& entry, const c10::Storage& decoded,
                                                codecs::ElementType type) {
  const auto exact = host_copy(entry.sample->exact, entry.raw_bytes, entry.device->saved_on);
  const auto restored = host_copy(decoded, entry.raw_bytes, current_stream(decoded.device()));
  if (exact == nullptr || restored == nullptr) return std::nullopt;
  return value_error(exact.get(), restored.get(), type, entry.raw_bytes);
}

}  // namespace

// The guard's first measurement of a watched entry. pre: entry.mutex() is held
void Stash::measure(Entry& entry, const c10::Storage& decoded) {
  if (entry.sample == nullptr || entry.sample->values_measured) return;
  entry.sample->values_measured = true;
  const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
  ValueError error;
  if (entry.device == nullptr) {
    error = value_error(entry.sample->exact.data(), decoded.data(), candidate.what.type,
                        entry.raw_bytes);
  } else {
    const auto found = value_error_on_device(entry, decoded, candidate.what.type);
    if (!found) return;
    error = *found;
  }
  totals_of(entry).checked(error.relative);
  entry.row->checked(error.relative);
  // Noise of any size in an activation is small where gradients sum over many of its elements.
  const bool too_far = candidate.tried ? error.non_finite != 0 : guard_.too_far(error);
  if (too_far) {
    be_careful(entry, "values", error.relative, settings().guard.max_relative_error,
               error.non_finite != 0);
  }
}

void Stash::gradient_measured(Entry& entry, double error) noexcept {
  totals_of(entry).gradient_checked(error);
  entry.row->gradient_checked(error);
  if (guard_.too_far(error)) {
    be_careful(entry, "gradients", error, settings().guard.max_gradient_error, false);
  }
}

// Entries of this class are held more precisely from now on.
void Stash::be_careful(Entry& entry, const char* what, double error, double limit,
                       bool broken) noexcept {
  {
    const std::lock_guard lock(mutex_);
    EntryClass& of_kind = *entry.entry_class;
    auto& caution = of_kind.members[entry.member].caution;
    // One check may find fault with values and with gradients.
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

// pre: mutex_ is held, entry is encoded
void Stash::note_caution(const Entry& entry, const char* what, double error, double limit,
                         bool broken) noexcept {
  char detail[160];
  std::snprintf(detail, sizeof detail,
                broken ? "%s off beyond all bounds (%.2g, limit %.2g): held losslessly"
                       : "%s off by %.2g, limit %.2g: held more precisely",
                what, error, limit);
  if_memory_allows([&] { timeline_.decided("guard", entry.row->title(), detail); });
}

// Gives up exact values on a device that were kept for the guard, the oldest first.
std::size_t Stash::give_up_samples(int device, std::size_t bytes) {
  std::size_t freed = 0;
  while (freed < bytes) {
    Entry* oldest = nullptr;
    {
      const std::lock_guard lock(mutex_);
      oldest = sampled_.oldest(device);
      if (oldest == nullptr) break;
      sampled_.remove(*oldest);
      ++oldest->holders;
    }
    freed += give_up_sample(*oldest);
    drop_holder(*oldest, nullptr);
  }
  return freed;
}

// The guard looks at the entry no more. pre: both locks are held
std::unique_ptr<GuardSample> Stash::take_sample(Entry& entry) {
  for (const Use* use = entry.first_use; use != nullptr && entry.watched; use = use->next) {
    guard_.forget(*use);
  }
  entry.watched = false;
  return std::move(entry.sample);
}

// pre: the entry was taken out of its queue
std::size_t Stash::give_up_sample(Entry& entry) {
  std::unique_ptr<GuardSample> sample;  // freed after the locks
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    const std::lock_guard stash_lock(mutex_);
    sample = take_sample(entry);
    held_.shrink(entry, entry.raw_bytes);
    note_change();
    if (entry.first_use != nullptr) enqueue_for_host(entry);
  }
  return sample->exact.use_count() == 1 ? entry.raw_bytes : 0;
}

}  // namespace cinch::hooks
