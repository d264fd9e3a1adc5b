// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "policy/adapting/director.h"
#include "policy/entry.h"
#include "policy/policy.h"

namespace cinch::policy {

/// Describes `entry` as a layer for `director`. The layer's kind is that of the most sensitive
/// operator that reads the entry's values; the layer's menu is filled in.
/// @return nothing when no adaptive policy decides about the entry: no operator reads its values,
/// they must be exact, rules decide, or the director is full
std::optional<Layer> describe_layer(const Policy& policy, const Director& director,
                                    const EntryDescription& entry);

}  // namespace cinch::policy
