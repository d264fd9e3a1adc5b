// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace cinch::policy {

/// What is wrong with one JSON value, in words.
struct SchemaFault {
  std::string pointer;  ///< the member to point at: the value itself, or an unknown field in it
  bool at_key = false;  ///< point at the member's key rather than at its value
  std::string message;  ///< what was found and what was expected
};

/// The subschema that `schema` applies to the value at JSON pointer `pointer`, references resolved;
/// null where the schema says nothing.
const nlohmann::json* subschema_at(const nlohmann::json& schema, const std::string& pointer);

/// Says why `value`, at `pointer`, does not satisfy `subschema` by itself (its members aside).
/// The message is empty when it does.
///
/// Knows the keywords that our schema uses.
/// @pre valijson refused the document because of `value`
SchemaFault schema_fault(const nlohmann::json& subschema, const nlohmann::json& value,
                         const std::string& pointer);

}  // namespace cinch::policy
