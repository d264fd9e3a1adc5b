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

/// Who else could give memory of the wanted device back: their numbers in `runs` and of the device
/// in each, those with the most idle memory first.
struct Giver {
  std::size_t run;
  std::uint64_t device;
  std::uint64_t idle;  ///< bytes, as last told
};
std::vector<Giver> givers(const std::vector<telemetry::Run>& runs, std::size_t asker);

/// Has processes of this user that share a device give memory back that they do not use, when one
/// of them has run out. A thread of its own, which sleeps until a process rings, and looks once a
/// second besides. One agent of a user does so at a time; another one takes over when it ends.
class Broker {
 public:
  /// @param tell Called from the broker's thread with why it can't do so, once for each reason, and
  /// with "" when it can again or another agent of this user does; null: nobody wants to know
  /// @param post What processes ring at; null: its thread takes it, now or when another agent ends
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
  std::vector<std::pair<telemetry::ProcessKey, std::uint64_t>> seen_to_;  // number of the last Want
  std::jthread thread_;
};

}  // namespace cinch::daemon
