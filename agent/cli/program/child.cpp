// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/program/child.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cinch::cli {
namespace {

/// All signals but SIGPIPE, which nobody sends: it says that we wrote to a closed pipe.
sigset_t forwarded_signals() {
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, SIGPIPE);
  return set;
}

/// Makes this process ignore SIGPIPE. @return the action before the first call
const struct sigaction& ignore_pipe() {
  static const struct sigaction before = [] {
    struct sigaction ignored = {};
    struct sigaction found;
    ignored.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignored, &found);
    return found;
  }();
  return before;
}

/// Whether a terminal, or the kernel for it, sends this signal to its whole foreground group.
bool is_of_terminals(int number) {
  switch (number) {
    case SIGINT:
    case SIGQUIT:
    case SIGHUP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGCONT:
    case SIGWINCH:
      return true;
    default:
      return false;
  }
}

bool asks_to_stop(int number) {
  return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/// Runs in the child: becomes the program, or writes errno to `error_pipe` and exits.
[[noreturn]] void become(const Command& command, const sigset_t& mask,
                         const struct sigaction& on_pipe, int error_pipe) {
  sigaction(SIGPIPE, &on_pipe, nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  for (const auto& [name, value] : command.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  if (!command.output.empty()) {
    const int file = open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file >= 0) {
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
    }
  }
  if (command.output_to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
  if (command.output_file >= 0) {
    dup2(command.output_file, STDOUT_FILENO);
    dup2(command.output_file, STDERR_FILENO);
  }
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof error);
  _exit(error == ENOENT ? 127 : 126);
}

constexpr long looks_per_second = 5;
constexpr long seconds_to_end = 10;

/// Follows a child's state and forwards to it the signals that this process gets.
class Attendant {
 public:
  explicit Attendant(pid_t child) : child_(child) {}

  /// Handles a signal that was taken from the queue.
  void take(int number, const siginfo_t& info) {
    if (number == SIGCHLD) {
      look_at_child();
    } else {
      pass_on(number, info);
    }
    // Only when both were told to stop: whoever stops the program alone will resume it alone.
    if (!stop_wanted_ || !stopped_ || ended()) return;
    stop_wanted_ = false;
    raise(SIGSTOP);  // until SIGCONT, which is then in the queue and is forwarded to the child
  }
  bool ended() const { return status_ >= 0; }
  /// See ChildResult::status. @pre ended()
  int status() const { return status_; }

 private:
  void look_at_child() {
    int status = 0;
    while (!ended() && waitpid(child_, &status, WNOHANG | WUNTRACED | WCONTINUED) == child_) {
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
        stopped_ = WIFSTOPPED(status);
      } else {
        status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      }
    }
  }
  void pass_on(int number, const siginfo_t& info) {
    if (asks_to_stop(number)) stop_wanted_ = true;
    if (number == SIGCONT) stop_wanted_ = false;
    if (info.si_code == SI_KERNEL && is_of_terminals(number)) return;  // the child has it already
    if (info.si_code == SI_QUEUE) {
      sigqueue(child_, number, info.si_value);
    } else {
      kill(child_, number);
    }
  }

  const pid_t child_;
  int status_ = -1;
  bool stopped_ = false;
  bool stop_wanted_ = false;
};

int wait_and_forward(pid_t child, const sigset_t& signals, const std::function<bool()>& look) {
  Attendant attendant(child);
  long looks_since_end = -1;  // since SIGTERM was sent; -1: not sent yet
  while (!attendant.ended()) {
    siginfo_t info = {};
    int number = 0;
    if (look == nullptr) {
      number = sigwaitinfo(&signals, &info);
    } else {
      const timespec pause = {0, 1'000'000'000 / looks_per_second};
      number = sigtimedwait(&signals, &info, &pause);
      if (looks_since_end >= 0) {
        if (++looks_since_end == seconds_to_end * looks_per_second) kill(child, SIGKILL);
      } else if (number < 0 && look()) {
        kill(child, SIGTERM);
        looks_since_end = 0;
      }
    }
    if (number > 0) attendant.take(number, info);
  }
  // Drop signals that came too late to forward: they must not end us before the report is shown.
  const timespec at_once = {};
  while (sigtimedwait(&signals, nullptr, &at_once) > 0) {
  }
  return attendant.status();
}

}  // namespace

ChildResult run_child(const Command& command) {
  ChildResult result;
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return {0, 126, false, std::string("cannot make a pipe: ") + strerror(errno)};
  }
  // Signals are blocked before the fork and taken one by one: no handler is needed, none is lost.
  const struct sigaction& on_pipe = ignore_pipe();
  const sigset_t signals = forwarded_signals();
  sigset_t mask;
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &signals, &mask);
  result.pid = fork();
  if (result.pid == 0) become(command, mask, on_pipe, pipe_ends[1]);
  const int fork_error = errno;
  close(pipe_ends[1]);
  if (result.pid < 0) {
    result.status = 126;
    result.error = std::string("cannot start a process: ") + strerror(fork_error);
  } else {
    int error = 0;
    ssize_t count = 0;
    do {
      count = read(pipe_ends[0], &error, sizeof error);
    } while (count < 0 && errno == EINTR);
    result.started = count != sizeof error;
    if (!result.started) {
      result.error = "cannot run " + command.arguments[0] + ": " + strerror(error);
    }
    result.status = wait_and_forward(result.pid, signals, command.look);
  }
  close(pipe_ends[0]);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  return result;
}

}  // namespace cinch::cli
