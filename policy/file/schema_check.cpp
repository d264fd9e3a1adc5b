// SPDX-License-Identifier: Apache-2.0
// GCC 12 warns about std::regex, which valijson uses, under sanitizers (GCC bug 105562).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "policy/file/schema_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "policy/file/embedded.h"
#include "policy/file/schema_fault.h"

namespace cinch::policy {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

/// valijson's context ("<root>", "[rules]", "[1]") as a JSON pointer.
std::string pointer_of(const std::vector<std::string>& context) {
  std::string pointer;
  for (const std::string& step : context) {
    if (step.size() >= 2 && step.front() == '[' && step.back() == ']') {
      pointer = pointer_append(pointer, std::string_view(step).substr(1, step.size() - 2));
    }
  }
  return pointer;
}

/// valijson repeats an error at a value for every value around it: only the innermost is useful.
bool is_innermost(const std::string& pointer, const std::vector<std::string>& all) {
  return std::none_of(all.begin(), all.end(), [&pointer](const std::string& other) {
    return other.size() > pointer.size() && other.starts_with(pointer) &&
           other[pointer.size()] == '/';
  });
}

std::size_t offset_of(const JsonSource& source, const SchemaFault& what) {
  const auto it = source.locations.find(what.pointer);
  if (it == source.locations.end()) return 0;
  return what.at_key ? it->second.key.value_or(it->second.value) : it->second.value;
}

}  // namespace

std::optional<JsonError> check_schema(const JsonSource& source, std::string_view text) {
  const Json schema_document = Json::parse(schema_text());
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(Adapter(schema_document), schema);
  valijson::ValidationResults results;
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  if (validator.validate(schema, Adapter(source.document), &results)) return std::nullopt;

  std::vector<std::string> pointers;
  std::vector<std::string> descriptions;
  for (const auto& error : results) {
    pointers.push_back(pointer_of(error.context));
    descriptions.push_back(error.description);
  }
  std::optional<SchemaFault> first;
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (!is_innermost(pointers[i], pointers)) continue;
    const Json* subschema = subschema_at(schema_document, pointers[i]);
    SchemaFault what;
    if (subschema != nullptr) {
      what = schema_fault(*subschema, source.document.at(Json::json_pointer(pointers[i])),
                          pointers[i]);
    }
    if (what.message.empty()) what = {pointers[i], false, descriptions[i]};
    if (!first || offset_of(source, what) < offset_of(source, *first)) first = what;
  }
  if (!first) first = SchemaFault{"", false, "found something that the policy schema refuses"};
  return JsonError{position_at(text, offset_of(source, *first)), first->pointer, first->message};
}

}  // namespace cinch::policy
