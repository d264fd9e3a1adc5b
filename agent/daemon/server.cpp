// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon/server.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "agent/daemon/http.h"
#include "agent/daemon/page.h"

namespace cinch::daemon {
namespace {

constexpr const char* json_type = "application/json";

// Takes the same time for all texts of equal length, so that timing does not reveal the token.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return different == 0;
}

HttpResponse refusal(int status, std::string words) {
  return {.status = status, .body = std::move(words) + '\n'};
}

HttpResponse found(const char* type, std::string body) {
  return {.type = type, .body = std::move(body)};
}

}  // namespace

class Server::Implementation {
 public:
  Implementation(const std::string& address, std::string token, Content content)
      : token_(std::move(token)),
        content_(std::move(content)),
        listener_(address, token_.empty()),
        server_(listener_, [this](const HttpRequest& request) { return answer(request); }, {}) {}

  const std::string& address() const { return listener_.address(); }

 private:
  HttpResponse answer(const HttpRequest& request) const {
    HttpResponse response = allowed_answer(request);
    response.fields.emplace_back("X-Content-Type-Options", "nosniff");
    response.fields.emplace_back("Cache-Control", "no-store");
    return response;
  }

  HttpResponse allowed_answer(const HttpRequest& request) const {
    const std::string_view path = request.path;
    const bool is_public =
        path == "/" || path == "/page.js" || path == "/page.css" || path == "/health";
    if (token_.empty() && !names_loopback(request.host)) {
      return refusal(403, "ask for 127.0.0.1 or localhost");
    }
    if (!token_.empty() && !is_public && !same(request.authorization, "Bearer " + token_)) {
      HttpResponse response = refusal(401, "send the agent's token: Authorization: Bearer ...");
      response.fields.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
    if (request.method != "GET" && request.method != "HEAD") {
      HttpResponse response = refusal(405, "only GET and HEAD are served");
      response.fields.emplace_back("Allow", "GET, HEAD");
      return response;
    }
    return content_of(path);
  }

  HttpResponse content_of(std::string_view path) const {
    if (path == "/metrics") {
      return found("text/plain; version=0.0.4; charset=utf-8", content_.metrics());
    }
    if (path == "/health") return found(json_type, content_.health());
    if (path == "/api/v1/runs") return found(json_type, content_.runs());
    if (path == "/api/v1/history") return found(json_type, content_.history());
    if (path == "/page.js") return found("text/javascript; charset=utf-8", page_script());
    if (path == "/page.css") return found("text/css; charset=utf-8", page_style());
    if (path == "/") {
      HttpResponse response = found("text/html; charset=utf-8", page_html());
      response.fields.emplace_back(
          "Content-Security-Policy",
          "default-src 'none'; img-src data:; script-src 'self'; style-src 'self'; "
          "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'");
      return response;
    }
    constexpr std::string_view one_run = "/api/v1/history/";
    if (path.starts_with(one_run)) {
      path.remove_prefix(one_run.size());
      std::int64_t id = 0;
      const char* const end = path.data() + path.size();
      const auto [at, error] = std::from_chars(path.data(), end, id);
      std::string body;
      if (error == std::errc{} && at == end && id >= 0) body = content_.history_of(id);
      if (!body.empty()) return found(json_type, std::move(body));
    }
    return refusal(404, "not found");
  }

  const std::string token_;
  const Content content_;
  const Listener listener_;
  const HttpServer server_;  // last: its thread uses all of the above
};

Server::Server(const std::string& address, std::string token, Content content)
    : implementation_(
          std::make_unique<Implementation>(address, std::move(token), std::move(content))) {}

Server::~Server() = default;

const std::string& Server::address() const {
  return implementation_->address();
}

}  // namespace cinch::daemon
