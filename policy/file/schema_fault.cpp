// SPDX-License-Identifier: Apache-2.0
#include "policy/file/schema_fault.h"

#include <vector>

#include "policy/file/json_source.h"
#include "policy/file/suggest.h"

namespace cinch::policy {
namespace {

using Json = nlohmann::json;

const Json* resolve(const Json& schema, const Json* node) {
  while (node != nullptr && node->is_object() && node->contains("$ref")) {
    const std::string target = node->at("$ref").get<std::string>().substr(1);  // "#/definitions/…"
    const Json::json_pointer pointer(target);
    node = schema.contains(pointer) ? &schema.at(pointer) : nullptr;
  }
  return node;
}

std::string with_article(const std::string& type) {
  return (type == "integer" || type == "object" || type == "array" ? "an " : "a ") + type;
}

std::string found(const Json& value) {
  constexpr std::size_t longest = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "…";
  return text;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  return type != "number" || value.is_number();
}

/// The values of an enum: words quoted, numbers as they are.
std::string listed(const Json& values) {
  std::string text;
  for (const Json& value : values) text += (text.empty() ? "" : ", ") + value.dump();
  return text;
}

/// What `schema` wants a value to be: `"a" or "b"`, "an integer from 1 to 8", "a string".
std::string expected(const Json& schema) {
  if (schema.contains("const")) return schema.at("const").dump();
  if (schema.contains("enum")) {
    return (schema.at("enum").size() > 1 ? "one of " : "") + listed(schema.at("enum"));
  }
  if (schema.contains("pattern")) return schema.at("title").get<std::string>();
  std::string text = with_article(schema.value("type", "value"));
  if (schema.contains("minimum") && schema.contains("maximum")) {
    text += " from " + schema.at("minimum").dump() + " to " + schema.at("maximum").dump();
  }
  if (schema.value("minLength", 0) > 0 || schema.value("minItems", 0) > 0) text += ", not empty";
  return text;
}

bool value_fits(const Json& schema, const Json& value) {
  if (schema.contains("const")) return value == schema.at("const");
  if (schema.contains("enum")) {
    for (const Json& allowed : schema.at("enum")) {
      if (value == allowed) return true;
    }
    return false;
  }
  if (schema.contains("type") && !has_type(value, schema.at("type"))) return false;
  if (schema.contains("minimum") && value < schema.at("minimum")) return false;
  if (schema.contains("maximum") && value > schema.at("maximum")) return false;
  if (schema.contains("minItems") && value.size() < schema.at("minItems")) return false;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    // The schema refused this value: if there is a pattern, the string does not match it.
    return text.size() >= schema.value("minLength", std::size_t{0}) && !schema.contains("pattern");
  }
  return true;
}

/// The fields that the alternatives of a `oneOf` require, one each.
std::vector<std::string> alternatives(const Json& schema) {
  std::vector<std::string> names;
  if (!schema.contains("oneOf")) return names;
  for (const Json& choice : schema.at("oneOf")) names.push_back(choice.at("required").at(0));
  return names;
}

SchemaFault fault_of_members(const Json& schema, const Json& value, const std::string& pointer) {
  std::vector<std::string> known;
  if (schema.contains("properties")) {
    for (const auto& [name, _] : schema.at("properties").items()) known.push_back(name);
    for (const auto& [name, _] : value.items()) {
      if (schema.at("properties").contains(name)) continue;
      return {pointer_append(pointer, name), true,
              "found an unknown field, expected one of " + quoted_list(known) +
                  did_you_mean(name, known)};
    }
  }
  if (schema.contains("required")) {
    for (const std::string name : schema.at("required")) {
      if (value.contains(name)) continue;
      std::string message = "found no field \"" + name + "\", expected it";
      if (const auto it = schema.at("properties").find(name); it->is_object()) {
        if (it->contains("const") || it->contains("enum")) message += " to be " + expected(*it);
      }
      return {pointer, false, message};
    }
  }
  if (value.size() < schema.value("minProperties", std::size_t{0})) {
    return {pointer, false, "found no field, expected one of " + quoted_list(known)};
  }
  if (const auto choices = alternatives(schema); !choices.empty()) {
    std::vector<std::string> present;
    for (const std::string& name : choices) {
      if (value.contains(name)) present.push_back(name);
    }
    if (present.size() != 1) {
      return {pointer, false,
              (present.empty() ? "found none of " + quoted_list(choices)
                               : "found both of " + quoted_list(present)) +
                  ", expected exactly one of them"};
    }
  }
  return {};
}

}  // namespace

const Json* subschema_at(const Json& schema, const std::string& pointer) {
  const Json* node = resolve(schema, &schema);
  for (const std::string& token : pointer_tokens(pointer)) {
    if (node == nullptr || !node->is_object()) return nullptr;
    if (node->contains("properties") && node->at("properties").contains(token)) {
      node = resolve(schema, &node->at("properties").at(token));
    } else if (node->contains("items")) {
      node = resolve(schema, &node->at("items"));
    } else {
      return nullptr;
    }
  }
  return node;
}

SchemaFault schema_fault(const Json& subschema, const Json& value, const std::string& pointer) {
  if (!value_fits(subschema, value)) {
    std::string message = "found " + found(value) + ", expected " + expected(subschema);
    const bool of_words = subschema.contains("enum") && subschema.at("enum").at(0).is_string();
    if (of_words && value.is_string()) {
      const auto words = subschema.at("enum").get<std::vector<std::string>>();
      message += did_you_mean(value.get<std::string>(), words);
    }
    return {pointer, false, message};
  }
  return value.is_object() ? fault_of_members(subschema, value, pointer) : SchemaFault{};
}

}  // namespace cinch::policy
