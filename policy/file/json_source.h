// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace cinch::policy {

/// A place in a text: 1-based, columns counted in characters.
struct TextPosition {
  int line = 0;
  int column = 0;
};

/// Where byte `offset` of `text` lies.
TextPosition position_at(std::string_view text, std::size_t offset);

/// Byte offsets of the first character of a member's key and of its value.
struct Location {
  std::optional<std::size_t> key;  ///< nothing for array elements and for the document itself
  std::size_t value = 0;
};

/// A parsed JSON text that remembers where everything in it was written.
struct JsonSource {
  nlohmann::json document;
  std::map<std::string, Location> locations;  ///< by JSON pointer; "" is the document
};

/// Why a text isn't the JSON it should be.
struct JsonError {
  TextPosition where;
  std::string pointer;  ///< JSON pointer of the offending member; "" for syntax errors
  std::string message;
};

/// Parses `text`. A key that occurs twice in one object is an error.
std::variant<JsonSource, JsonError> parse_json(std::string_view text);

/// Appends `token` to a JSON pointer, escaped.
std::string pointer_append(const std::string& pointer, std::string_view token);

/// The steps of a well-formed JSON pointer, unescaped.
std::vector<std::string> pointer_tokens(std::string_view pointer);

/// "/rules/1/match/op" as people write it: "rules[1].match.op".
std::string field_path(std::string_view pointer);

}  // namespace cinch::policy
