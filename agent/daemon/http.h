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

/// A socket that listens, and the addresses that are the loopback's.
class Listener {
 public:
  /// @param address HOST:PORT; port 0: any that is free. @param loopback_only Whether another
  /// address is refused, by what HOST resolves to. @throws std::runtime_error for people
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

/// An HTTP/1.1 server for small answers without request bodies. One thread serves all connections
/// and waits for none of them. Bounded before anything is looked at: the bytes of a request, the
/// time that it may take, and the number of connections, of which the one that has made its request
/// wait longest makes room for a new one. Every connection is for one request.
class HttpServer {
 public:
  static constexpr std::size_t most_connections = 64;
  static constexpr std::size_t most_request_bytes = std::size_t{16} << 10;
  /// What a client may take to send a request, and to read its answer.
  struct Times {
    std::chrono::milliseconds request{5000};
    std::chrono::milliseconds answer{30'000};
  };

  /// Called from the server's thread; may throw, which is answered by status 500 and its words.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  /// Serves at once. `listener` has to live longer than this.
  /// @throws std::runtime_error when there is no room for a thread
  HttpServer(const Listener& listener, Handler handler, Times times);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace cinch::daemon
