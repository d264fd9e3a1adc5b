// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "policy/director.h"
#include "policy/entry.h"
#include "policy/policy.h"

namespace cinch::policy {

/// The layer that `entry` is, for `director`: its kind is that of the most sensitive operator that
/// reads its values, and its menu is filled in.
/// @return nothing when no adaptive policy has a say about it: nobody reads its values, they have
/// to be exact, rules decide, or the director has as many layers as it takes
std::optional<Layer> describe_layer(const Policy& policy, const Director& director,
                                    const EntryDescription& entry);

}  // namespace cinch::policy
