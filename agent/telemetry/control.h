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

/// Requests to a running process, through a second segment beside its telemetry segment, mode
/// 0600. `cinch ctl` writes one request at a time into it, and the process writes its answer.
namespace cinch::telemetry {

/// The kinds of request.
enum class Command : std::uint64_t {
  policy = 1,   ///< argument: a name, a zero byte, the policy file's text
  budget,       ///< argument: the most bytes that the stash may hold, in decimal digits
  pause,        ///< save nothing from now on
  resume,       ///< end of `pause`
  empty_cache,  ///< give memory that nobody uses back
  snapshot,     ///< argument: the file to write a snapshot of CUDA's allocator to
};

struct Request {
  Command command = Command::policy;
  std::string argument;
};

/// The content of the segment. Requests are numbered; `state` is four times the number of the last
/// one, plus its phase. The phase says which side may write to the block and change `state`.
struct ControlBlock {
  enum Phase : std::uint64_t {
    idle = 0,      ///< the asking side: there is no request, or it was withdrawn
    asked = 1,     ///< both: the process may take the request, the asking side may withdraw it
    taken = 2,     ///< the process
    answered = 3,  ///< the asking side
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
  Word done;  ///< of the answer: 1 when the request was carried out, 0 when it was refused
  Text<1024> answer;

  // For sharing a device's memory. "agent": written by the `cinch agent` that holds the AgentPost
  // (give_asked by interrupt() too); "process": written by the segment's process.
  Word give_asked;   ///< agent: the number of its last request to give back idle memory
  Word give_device;  ///< agent: the index that the CUDA device has in this process
  Word give_done;    ///< process: the number of the last such request that it carried out
  Word gave;         ///< process: the bytes that it gave back for that request
  Word want_heard;   ///< agent: the number of the last Want that it has dealt with
  Word granted;      ///< agent: the bytes that other processes gave back for that Want

  char argument[most_argument_bytes];
};

/// The path of a process's control segment.
std::string control_path(const std::string& directory, const ProcessKey& process);

/// A process's own control segment.
class Control {
 public:
  /// Makes the segment of `process` in `directory`. Null on failure: `error` says why.
  static std::unique_ptr<Control> create(const std::string& directory, const ProcessKey& process,
                                         std::string& error);
  /// Leaves the segment mapped: other threads may still use it.
  ~Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Whether a request waits to be taken. One load.
  bool asked() const noexcept {
    return (block_->state.load(std::memory_order_relaxed) & 3) == ControlBlock::asked;
  }
  /// The kind of the request that waits.
  Command asked_for() const noexcept {
    return static_cast<Command>(block_->command.load(std::memory_order_relaxed));
  }
  /// Takes the request that waits; nothing when another thread took it or the asker withdrew it
  /// first. Refuses a request of an unknown kind, or one that is too long.
  std::optional<Request> take();

  /// Answers the request that was taken. @pre not answered yet
  /// @param done Whether the request was carried out; if not, `words` says why
  void answer(bool done, std::string_view words) noexcept;

  /// The number of the last request to give memory back; changes with each request.
  std::uint64_t asked_to_give() const noexcept {
    return block_->give_asked.load(std::memory_order_acquire);
  }
  /// Sleeps while asked_to_give() is `seen`. May return early.
  void sleep_until_asked_to_give(std::uint64_t seen) noexcept;
  /// Wakes the thread that sleeps there, by changing that number.
  void interrupt() noexcept;
  /// The device index of that request. Written by another process: it may be out of range.
  std::uint64_t device_to_give() const noexcept {
    return block_->give_device.load(std::memory_order_relaxed);
  }
  /// Answers request number `request`: `bytes` were given back.
  void gave(std::uint64_t request, std::uint64_t bytes) noexcept;

  /// The number of the last Want that the agent has dealt with, and the result.
  struct Heard {
    std::uint64_t want;
    std::uint64_t bytes;  ///< that others gave back
  };
  Heard heard() const noexcept;
  /// Sleeps while heard().want is `seen`, at most `nanoseconds` (0: no limit). May return early.
  void sleep_until_heard(std::uint64_t seen, std::uint64_t nanoseconds) noexcept;

  /// Deletes the segment's file. May be called twice.
  void remove() noexcept;
  /// In a forked child: unmaps the parent's segment. This object must not be used afterwards.
  void forget() noexcept;

 private:
  Control(ControlBlock* block, std::string path) : block_(block), path_(std::move(path)) {}

  ControlBlock* block_;
  std::string path_;
};

}  // namespace cinch::telemetry
