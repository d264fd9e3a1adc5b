// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/figures/entry_rows.h"

namespace cinch::hooks {

/// The name of `entry`'s row in the report. @pre entry is planned
EntryName name_of(const Entry& entry);

}  // namespace cinch::hooks
