// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/telemetry/slot.h"

/// Where processes that train and their user's `cinch agent` find each other: a file beside the
/// segments, mode 0600, which the agent holds locked as long as it lives, however it ends.
namespace cinch::telemetry {

/// What lies in the file.
struct AgentBlock {
  static constexpr std::uint64_t magic_value = 0x544741'48434e49'43;  // "CINCHAGT" in memory
  static constexpr std::uint64_t version_value = 1;

  Word magic;
  Word version;
  Word ready;  ///< 1, stored last
  Word bell;   ///< goes up when a process wants something of the agent
};

/// "DIRECTORY/cinch-UID.agent", of this user.
std::string agent_path(const std::string& directory);

/// The agent's end.
class AgentPost {
 public:
  /// Null while another agent of this user has it, and when it can't be had: then `error` says why.
  static std::unique_ptr<AgentPost> take(const std::string& directory, std::string& error);
  /// Takes the file away.
  ~AgentPost();
  AgentPost(const AgentPost&) = delete;
  AgentPost& operator=(const AgentPost&) = delete;

  /// How often the bell was rung.
  std::uint64_t rung() const noexcept { return block_->bell.load(std::memory_order_acquire); }
  /// Sleeps until it was rung more often than `seen`, or for so long, or for less.
  void wait(std::uint64_t seen, std::uint64_t nanoseconds) noexcept;
  /// Rings it, for the agent's own threads.
  void ring() noexcept;

 private:
  AgentPost(AgentBlock* block, int file, std::string path)
      : block_(block), file_(file), path_(std::move(path)) {}

  AgentBlock* block_;
  int file_;
  std::string path_;
};

/// A process's end. Opened anew whenever it is needed: agents come and go.
class AgentBell {
 public:
  explicit AgentBell(const std::string& directory);
  ~AgentBell();
  AgentBell(const AgentBell&) = delete;
  AgentBell& operator=(const AgentBell&) = delete;

  /// Whether an agent of this user is alive there. One system call.
  bool alive() const noexcept;
  /// @pre alive() was true
  void ring() noexcept;

 private:
  int file_ = -1;
  AgentBlock* block_ = nullptr;
};

}  // namespace cinch::telemetry
