// SPDX-License-Identifier: Apache-2.0
// What the stash does for the guard: measures watched entries, and holds their kind more precisely.
#include <cstdio>

#include "hooks/torch/entry_rows.h"
#include "hooks/torch/stash.h"
#include "hooks/torch/telemetry.h"

namespace cinch::hooks {

// The guard's first measurement of a watched entry. pre: entry.mutex() is held
void Stash::measure(Entry& entry, const c10::Storage& decoded) {
  if (entry.sample == nullptr || entry.sample->values_measured) return;
  entry.sample->values_measured = true;
  const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
  const ValueError error =
      value_error(entry.sample->exact.data(), decoded.data(), candidate.what.type, entry.raw_bytes);
  candidate.totals->checked(error.relative);
  entry.row->checked(error.relative);
  if (guard_.too_far(error)) {
    be_careful(entry, "values", error.relative, settings().guard.max_relative_error,
               error.non_finite != 0);
  }
}

void Stash::gradient_measured(Entry& entry, double error) noexcept {
  const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
  candidate.totals->gradient_checked(error);
  entry.row->gradient_checked(error);
  if (guard_.too_far(error)) {
    be_careful(entry, "gradients", error, settings().guard.max_gradient_error, false);
  }
}

// Entries of this class are held more precisely from now on.
void Stash::be_careful(Entry& entry, const char* what, double error, double limit,
                       bool broken) noexcept {
  const Plan::Candidate& candidate = entry.plan().candidates[entry.candidate];
  {
    const std::lock_guard lock(mutex_);
    EntryClass& of_kind = *entry.entry_class;
    auto& caution = of_kind.members[entry.member].caution;
    // One check may find fault with values and with gradients.
    if (caution != entry.caution || caution == policy::most_caution) return;
    caution = broken ? policy::most_caution : static_cast<std::uint8_t>(caution + 1);
    note_caution(entry, what, error, limit, broken);
  }
  candidate.totals->moves.fetch_add(1, std::memory_order_relaxed);
  const OpTotals& row = *candidate.totals;
  telemetry_event(telemetry::EventKind::guard, "%s %s, number %u of its shape: %s: %s off by %.2g",
                  row.op.c_str(), row.operand.c_str(), entry.member + 1, row.codec.c_str(), what,
                  error);
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

}  // namespace cinch::hooks
