// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon/http_message.h"

#include <algorithm>
#include <cctype>

namespace cinch::daemon {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

ParsedHead parse_head(std::string_view head) {
  ParsedHead parsed;
  HttpRequest& request = parsed.request;
  bool is_first = true;
  while (!head.empty()) {
    const std::size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    if (is_first) {
      is_first = false;
      const std::size_t one = line.find(' ');
      const std::size_t two = line.rfind(' ');
      if (one == line.npos || one == two || !line.substr(two + 1).starts_with("HTTP/1.")) {
        return {400};
      }
      const std::string_view target = line.substr(one + 1, two - one - 1);
      if (!target.starts_with('/')) return {400};
      request.method = line.substr(0, one);
      request.path = target.substr(0, target.find('?'));
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos || colon == 0 || line.front() == ' ' || line.front() == '\t') {
      return {400};
    }
    const std::string name = lower(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (name == "host" || name == "authorization") {
      std::string& field = name == "host" ? request.host : request.authorization;
      if (!field.empty()) return {400};  // a proxy before us may have used the other one
      field = value;
    }
    const bool has_body = name == "transfer-encoding" || (name == "content-length" && value != "0");
    if (has_body) return {413};
  }
  return is_first ? ParsedHead{400} : parsed;
}

std::string text_of(const HttpResponse& response, bool with_body) {
  std::string text =
      "HTTP/1.1 " + std::to_string(response.status) + ' ' +
      std::string(reason_of(response.status)) + "\r\nContent-Type: " + response.type +
      "\r\nContent-Length: " + std::to_string(response.body.size()) + "\r\nConnection: close\r\n";
  for (const auto& [name, value] : response.fields) text += name + ": " + value + "\r\n";
  text += "\r\n";
  if (with_body) text += response.body;
  return text;
}

}  // namespace cinch::daemon
