// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/telemetry/slot.h"

/// How training processes find their user's `cinch agent`: a file beside the segments, mode 0600.
/// The agent keeps it locked; the kernel drops the lock however the agent ends.
namespace cinch::telemetry {

/// The content of the file.
struct AgentBlock {
  static constexpr std::uint64_t magic_value = 0x544741'48434e49'43;  // "CINCHAGT" in memory
  static constexpr std::uint64_t version_value = 1;

  Word magic;
  Word version;
  Word ready;  ///< 1, stored last
  Word bell;   ///< a process increments it when it wants something of the agent
};

/// "DIRECTORY/cinch-UID.agent", of this user.
std::string agent_path(const std::string& directory);

/// The agent's side.
class AgentPost {
 public:
  /// Makes and locks the file. Null with an empty `error` while another agent of this user holds
  /// the lock; null on failure, and `error` says why.
  static std::unique_ptr<AgentPost> take(const std::string& directory, std::string& error);
  /// Deletes the file.
  ~AgentPost();
  AgentPost(const AgentPost&) = delete;
  AgentPost& operator=(const AgentPost&) = delete;

  /// The number of rings so far.
  std::uint64_t rung() const noexcept { return block_->bell.load(std::memory_order_acquire); }
  /// Sleeps while rung() is `seen`, at most `nanoseconds` (0: no limit). May return early.
  void wait(std::uint64_t seen, std::uint64_t nanoseconds) noexcept;
  /// Rings the bell from another thread of the agent.
  void ring() noexcept;

 private:
  AgentPost(AgentBlock* block, int file, std::string path)
      : block_(block), file_(file), path_(std::move(path)) {}

  AgentBlock* block_;
  int file_;
  std::string path_;
};

/// A training process's side. Make a new one for each use: agents come and go.
class AgentBell {
 public:
  explicit AgentBell(const std::string& directory);
  ~AgentBell();
  AgentBell(const AgentBell&) = delete;
  AgentBell& operator=(const AgentBell&) = delete;

  /// Whether an agent of this user is alive there. One system call.
  bool alive() const noexcept;
  /// Wakes the agent. @pre alive() was true
  void ring() noexcept;

 private:
  int file_ = -1;
  AgentBlock* block_ = nullptr;
};

}  // namespace cinch::telemetry
