// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <sys/socket.h>

#include "agent/daemon/http_message.h"

namespace cinch::daemon {

/// A listening TCP socket.
class Listener {
 public:
  /// @param address HOST:PORT; port 0: any that is free
  /// @param loopback_only Refuse a HOST that resolves to any address but the loopback's
  /// @throws std::runtime_error with a message for people
  Listener(const std::string& address, bool loopback_only);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int socket() const noexcept { return socket_; }
  /// "127.0.0.1:9464".
  const std::string& address() const noexcept { return address_; }

 private:
  int socket_ = -1;
  std::string address_;
};

/// Whether the Host field of a request names the loopback: "localhost", 127.0.0.0/8 or ::1, each
/// with a port or without.
bool names_loopback(std::string_view host_field);

/// An HTTP/1.1 server for small answers. Requests have no body; a connection carries one request.
/// One thread serves all connections and waits for none of them. Limits hold before anything is
/// parsed: a request's bytes and time, and the number of connections; beyond it a new connection
/// replaces the one whose request the server has awaited longest. Why no library does this:
/// docs/design.md, "The agent's HTTP".
class HttpServer {
 public:
  static constexpr std::size_t most_connections = 64;
  static constexpr std::size_t most_request_bytes = std::size_t{16} << 10;
  /// The time that a client has to send a request, and to read its answer.
  struct Times {
    std::chrono::milliseconds request{5000};
    std::chrono::milliseconds answer{30'000};
  };

  /// Called from the server's thread. An exception is answered by status 500 and its message.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  /// Begins to serve. `listener` must outlive this.
  /// @throws std::runtime_error when no thread can be started
  HttpServer(const Listener& listener, Handler handler, Times times);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace cinch::daemon
