// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cinch::daemon {

/// Callbacks that return the bodies of answers. Called from the server's thread; may throw.
struct Content {
  std::function<std::string()> metrics;
  std::function<std::string()> health;  ///< JSON
  std::function<std::string()> runs;    ///< JSON, as configs/agent/watch.schema.json
  std::function<std::string()> history;
  /// "" when there is no such run.
  std::function<std::string(std::int64_t id)> history_of;
};

/// The agent's HTTP server.
///
/// Without a token it answers only requests whose Host names the loopback, so that a web page can't
/// make a browser read the agent under the page's own host name. With a token, everything but the
/// page and /health requires "Authorization: Bearer TOKEN".
class Server {
 public:
  /// Listens at once. @param address HOST:PORT; port 0: any that is free
  /// @throws std::runtime_error with a message for people when the address can't be used, or is not
  /// the loopback's while there is no token
  Server(const std::string& address, std::string token, Content content);
  /// Stops the server and its thread.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The address that it listens on, "127.0.0.1:9464".
  const std::string& address() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace cinch::daemon
