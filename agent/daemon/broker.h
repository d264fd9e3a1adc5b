// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/telemetry/agent_post.h"
#include "agent/telemetry/reader.h"

namespace cinch::daemon {

/// A process that could give back memory of a device that another process wants.
struct Giver {
  std::size_t run;       ///< index in `runs`
  std::uint64_t device;  ///< the index that the device has in this process
  std::uint64_t idle;    ///< bytes, as last published
};
/// Those that could give to `runs[asker]`, most idle bytes first. @pre runs[asker].want is set
std::vector<Giver> givers(const std::vector<telemetry::Run>& runs, std::size_t asker);

/// When a process of this user runs out of a device's memory, asks this user's other processes on
/// that device to give back idle memory. Its own thread sleeps until a process rings, and looks
/// once a second besides. One agent of a user does this at a time; another takes over when it ends.
class Broker {
 public:
  /// @param tell Called from the broker's thread: once with each reason why it can't do this, and
  /// with "" when it can again or another agent of this user does it; may be null
  /// @param post The post; null: the broker's thread takes it, now or when another agent ends
  explicit Broker(std::string directory, std::function<void(const std::string&)> tell = nullptr,
                  std::unique_ptr<telemetry::AgentPost> post = nullptr);
  /// Ends the thread.
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

 private:
  void loop(const std::stop_token& stop);
  void look();
  void serve(const std::vector<telemetry::Run>& runs, std::size_t asker);

  void tell(const std::string& fault);

  const std::string directory_;
  const std::function<void(const std::string&)> tell_;
  std::string told_;
  std::unique_ptr<telemetry::AgentPost> post_;
  std::vector<std::pair<telemetry::ProcessKey, std::uint64_t>> seen_to_;  // last Want's number
  std::jthread thread_;
};

}  // namespace cinch::daemon
