// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "policy/file/json_source.h"

namespace cinch::policy {

/// Validates a document against the embedded policy schema.
/// @return the first violation in the order of the text, or nothing
/// @throws std::exception on an internal error only (the embedded schema is broken)
std::optional<JsonError> check_schema(const JsonSource& source, std::string_view text);

}  // namespace cinch::policy
