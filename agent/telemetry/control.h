// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/telemetry/process.h"
#include "agent/telemetry/slot.h"

/// How a running process is told to do otherwise: a segment of its own beside the telemetry one,
/// mode 0600, into which `cinch ctl` writes one request at a time and the process its answer.
namespace cinch::telemetry {

/// What can be asked for.
enum class Command : std::uint64_t {
  policy = 1,   ///< argument: a name, a zero byte, the policy file's text
  budget,       ///< argument: decimal digits, the most bytes that the stash shall hold
  pause,        ///< save nothing from now on
  resume,       ///< end of `pause`
  empty_cache,  ///< give memory that nobody uses back
  snapshot,     ///< argument: the file to write a snapshot of CUDA's allocator to
};

struct Request {
  Command command = Command::policy;
  std::string argument;
};

/// What lies in the segment. Requests are numbered; `state` holds the number of the last one, times
/// four, plus its phase. Each phase says whose turn it is: only they write, and only the next.
struct ControlBlock {
  enum Phase : std::uint64_t {
    idle = 0,      ///< the asking side's: there is none, or it was withdrawn
    asked = 1,     ///< the process may take it, the asking side withdraw it
    taken = 2,     ///< the process's
    answered = 3,  ///< the asking side's
  };
  static constexpr std::uint64_t magic_value = 0x4C5443'48434e49'43;  // "CINCHCTL" in memory
  static constexpr std::uint64_t version_value = 2;
  static constexpr std::size_t most_argument_bytes = 60 * 1024;

  Word magic;
  Word version;
  Word ready;  ///< 1, stored last
  Word state;
  Word command;
  Word argument_bytes;
  Word done;  ///< of the answer: 1 when what was asked for was done, 0 when it was refused
  Text<1024> answer;

  // Memory that processes share. The words of the agent's side are written by the one `cinch agent`
  // that holds the AgentPost.
  Word give_asked;   ///< the agent's: the number of its last request to give back idle memory
  Word give_device;  ///< the agent's: of which CUDA device, by this process's count
  Word give_done;    ///< the process's: the number of the last one that it has carried out
  Word gave;         ///< the process's: bytes that it gave back then
  Word want_heard;   ///< the agent's: the number of the Want that it has seen to
  Word granted;      ///< the agent's: bytes that others gave back for that

  char argument[most_argument_bytes];
};

/// The file beside a process's telemetry segment.
std::string control_path(const std::string& directory, const ProcessKey& process);

/// A process's own control segment: what others ask of it.
class Control {
 public:
  /// Makes the segment of `process` in `directory`. Null when that is not possible.
  static std::unique_ptr<Control> create(const std::string& directory, const ProcessKey& process,
                                         std::string& error);
  /// Leaves it mapped: other threads may be at it.
  ~Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Whether a request waits to be taken. One load.
  bool asked() const noexcept {
    return (block_->state.load(std::memory_order_relaxed) & 3) == ControlBlock::asked;
  }
  /// What the request that waits is about.
  Command asked_for() const noexcept {
    return static_cast<Command>(block_->command.load(std::memory_order_relaxed));
  }
  /// Takes it; nothing when another thread, or the withdrawing asker, was faster. A request of an
  /// unknown kind or size is refused here.
  std::optional<Request> take();

  /// Answers the request that was taken, once. @param done Whether it was carried out; else
  /// `words` says why not
  void answer(bool done, std::string_view words) noexcept;

  /// The number of the last request to give memory back; another one is a new request.
  std::uint64_t asked_to_give() const noexcept {
    return block_->give_asked.load(std::memory_order_acquire);
  }
  /// Sleeps until there is another request than `seen`, or for less.
  void sleep_until_asked_to_give(std::uint64_t seen) noexcept;
  /// Wakes who sleeps there, and the number is another one.
  void interrupt() noexcept;
  /// Of which device it is, as another process has it: any number.
  std::uint64_t device_to_give() const noexcept {
    return block_->give_device.load(std::memory_order_relaxed);
  }
  /// That request is carried out.
  void gave(std::uint64_t request, std::uint64_t bytes) noexcept;

  /// The number of the last Want that the agent has seen to, and what came of it.
  struct Heard {
    std::uint64_t want;
    std::uint64_t bytes;  ///< that others gave back
  };
  Heard heard() const noexcept;
  /// Sleeps until another Want than `seen` was seen to, or for so long, or for less.
  void sleep_until_heard(std::uint64_t seen, std::uint64_t nanoseconds) noexcept;

  /// Takes the segment's name away. May be called twice.
  void remove() noexcept;
  /// In a forked child: unmaps the parent's. Not to be used any more.
  void forget() noexcept;

 private:
  Control(ControlBlock* block, std::string path) : block_(block), path_(std::move(path)) {}

  ControlBlock* block_;
  std::string path_;
};

}  // namespace cinch::telemetry
