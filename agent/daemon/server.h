// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cinch::daemon {

/// What the HTTP server shows; each is called from the server's thread, may throw, and returns a
/// body.
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
/// Without a token it answers only those who ask for a name of this machine's loopback, so that a
/// web page can't have a browser read it under a name of its own; with one, everything but the page
/// and /health wants "Authorization: Bearer TOKEN".
class Server {
 public:
  /// Listens at once. @param address HOST:PORT; port 0: any that is free
  /// @throws std::runtime_error for people: an address that can't be used, or is not the loopback's
  /// while there is no token
  Server(const std::string& address, std::string token, Content content);
  /// Ends the server and its thread.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens, "127.0.0.1:9464".
  const std::string& address() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace cinch::daemon
