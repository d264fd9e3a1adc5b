// SPDX-License-Identifier: Apache-2.0
#include "agent/web/page.h"

namespace cinch::web {
namespace {

/// Escapes '<', which occurs in JSON's strings only, so that no text can end the script element.
std::string for_a_script_element(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string report_page(std::string_view report_json) {
  const std::string data = for_a_script_element(report_json);
  std::string page;
  std::string_view rest = report_html();
  const struct {
    std::string_view place;
    std::string_view text;
  } parts[] = {
      {"@report_css@", report_css()}, {"@report_data@", data}, {"@report_js@", report_js()}};
  for (const auto& part : parts) {
    const std::size_t at = rest.find(part.place);
    page += rest.substr(0, at);
    page += part.text;
    rest.remove_prefix(at + part.place.size());
  }
  return page += rest;
}

}  // namespace cinch::web
