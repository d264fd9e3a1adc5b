// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "policy/policy.h"

namespace cinch::policy {

/// configs/policy.schema.json, as embedded at build time.
std::string_view schema_text() noexcept;

}  // namespace cinch::policy
