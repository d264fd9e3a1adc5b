// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cinch::daemon {

/// The head of a request; there is never a body.
struct HttpRequest {
  std::string method;
  std::string path;           ///< without the query
  std::string host;           ///< header field; "" when not sent
  std::string authorization;  ///< likewise
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields = {};
};

/// A request, or the status that refuses it.
struct ParsedHead {
  int status = 0;  ///< 0: `request` is valid
  HttpRequest request = {};
};

/// @param head The request up to the empty line, without it
ParsedHead parse_head(std::string_view head);

/// "Not Found", …
std::string_view reason_of(int status);

/// The bytes to send. @param with_body False for an answer to HEAD
std::string text_of(const HttpResponse& response, bool with_body);

/// ASCII letters in lower case.
std::string lower(std::string_view text);

}  // namespace cinch::daemon
