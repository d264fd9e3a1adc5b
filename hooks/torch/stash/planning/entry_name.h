// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/figures/entry_rows.h"

namespace cinch::hooks {

/// The use that names `entry`: the first that reads values, else the first. @pre entry is planned
const Use& telling_use(const Entry& entry);

/// The name of `entry`'s row in the report. @pre entry is planned
EntryName name_of(const Entry& entry);

}  // namespace cinch::hooks
