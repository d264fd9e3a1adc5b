// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon/server.h"

#include <atomic>
#include <charconv>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <httplib.h>

#include "agent/daemon/page.h"

namespace cinch::daemon {
namespace {

using httplib::Request;
using httplib::Response;

constexpr std::size_t threads = 4;
constexpr const char* json_type = "application/json";

struct Address {
  std::string host;
  int port = 0;
};

Address parse(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Address address;
  if (colon != text.npos) {
    address.host = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error != std::errc{} || at != end) address.port = -1;
  }
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (colon == text.npos || address.host.empty() || address.port < 0 || address.port > 65535) {
    throw std::runtime_error("found the address \"" + text +
                             "\", expected HOST:PORT, such as 127.0.0.1:9464");
  }
  return address;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// The host of a request's Host field, without port and brackets.
std::string_view asked_host(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

// Takes as long for every wrong token of the same length.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return different == 0;
}

}  // namespace

class Server::Implementation {
 public:
  Implementation(const std::string& address, std::string token, Content content)
      : token_(std::move(token)), content_(std::move(content)) {
    const Address at = parse(address);
    if (token_.empty() && !is_loopback(at.host)) {
      throw std::runtime_error("listening on " + at.host +
                               " shows your runs to the network: set CINCH_AGENT_TOKEN to a secret "
                               "that readers have to send, or listen on 127.0.0.1");
    }
    // Not the library's own choice, SO_REUSEPORT: two agents would share one port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.new_task_queue = [] { return new httplib::ThreadPool(threads); };
    server_.set_keep_alive_max_count(100);
    server_.set_read_timeout(5);
    server_.set_write_timeout(5);
    server_.set_payload_max_length(1 << 16);
    routes();
    int port = at.port;
    if (port == 0) {
      port = server_.bind_to_any_port(at.host.c_str());
    } else if (!server_.bind_to_port(at.host.c_str(), port)) {
      port = -1;
    }
    if (port < 0) {
      throw std::runtime_error("cannot listen on " + address +
                               ": is another agent running, or is the address not this machine's?");
    }
    const bool six = at.host.find(':') != at.host.npos;
    address_ = (six ? "[" + at.host + "]" : at.host) + ":" + std::to_string(port);
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    // Stopping a server that does not run yet would be forgotten.
    while (!server_.is_running() && !ended_) std::this_thread::yield();
  }

  ~Implementation() {
    server_.stop();
    thread_.join();
  }

  const std::string& address() const { return address_; }

 private:
  void routes() {
    server_.set_pre_routing_handler([this](const Request& request, Response& response) {
      response.set_header("X-Content-Type-Options", "nosniff");
      response.set_header("Cache-Control", "no-store");
      if (allowed(request, response)) return httplib::Server::HandlerResponse::Unhandled;
      return httplib::Server::HandlerResponse::Handled;
    });
    server_.set_exception_handler(
        [](const Request&, Response& response, std::exception_ptr thrown) {
          response.status = 500;
          try {
            std::rethrow_exception(thrown);
          } catch (const std::exception& error) {
            response.set_content(std::string(error.what()) + '\n', "text/plain; charset=utf-8");
          }
        });
    const auto serve = [this](const char* path, const char* type, auto what) {
      server_.Get(path, [type, what](const Request&, Response& response) {
        response.set_content(what(), type);
      });
    };
    serve("/metrics", "text/plain; version=0.0.4; charset=utf-8", content_.metrics);
    serve("/health", json_type, content_.health);
    serve("/api/v1/runs", json_type, content_.runs);
    serve("/api/v1/history", json_type, content_.history);
    server_.Get(R"(/api/v1/history/(\d{1,18}))",
                [this](const Request& request, Response& response) {
                  const std::string body = content_.history_of(std::stoll(request.matches[1]));
                  if (body.empty()) {
                    response.status = 404;
                  } else {
                    response.set_content(body, json_type);
                  }
                });
    server_.Get("/", [](const Request&, Response& response) {
      response.set_header("Content-Security-Policy",
                          "default-src 'none'; script-src 'self'; style-src 'self'; "
                          "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'");
      response.set_content(page_html(), "text/html; charset=utf-8");
    });
    serve("/page.js", "text/javascript; charset=utf-8", [] { return std::string(page_script()); });
    serve("/page.css", "text/css; charset=utf-8", [] { return std::string(page_style()); });
  }

  bool allowed(const Request& request, Response& response) const {
    if (token_.empty()) {
      if (is_loopback(asked_host(request.get_header_value("Host")))) return true;
      response.status = 403;
      response.set_content("ask for 127.0.0.1 or localhost\n", "text/plain");
      return false;
    }
    const std::string_view path = request.path;
    if (path == "/" || path == "/page.js" || path == "/page.css" || path == "/health") return true;
    if (same(request.get_header_value("Authorization"), "Bearer " + token_)) return true;
    response.status = 401;
    response.set_header("WWW-Authenticate", "Bearer");
    response.set_content("send the agent's token: Authorization: Bearer ...\n", "text/plain");
    return false;
  }

  const std::string token_;
  const Content content_;
  httplib::Server server_;
  std::string address_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

Server::Server(const std::string& address, std::string token, Content content)
    : implementation_(
          std::make_unique<Implementation>(address, std::move(token), std::move(content))) {}

Server::~Server() = default;

const std::string& Server::address() const {
  return implementation_->address();
}

}  // namespace cinch::daemon
