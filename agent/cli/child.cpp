// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/child.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cinch::cli {
namespace {

sigset_t forwarded_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  return set;
}

/// Runs in the child: never returns. Tells `error_pipe` what went wrong.
[[noreturn]] void become(const Command& command, const sigset_t& mask, int error_pipe) {
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

int wait_and_forward(pid_t child, const sigset_t& signals, const std::function<bool()>& look) {
  long looks_since_end = -1;  // since it was asked to end
  for (;;) {
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
    if (number == SIGCHLD) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) != child) continue;
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    // A terminal sends to its whole foreground group, the child included.
    if (number > 0 && info.si_code != SI_KERNEL) kill(child, number);
  }
}

}  // namespace

ChildResult run_child(const Command& command) {
  ChildResult result;
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return {0, 126, false, std::string("cannot make a pipe: ") + strerror(errno)};
  }
  // Blocked before the fork and taken one by one: no handler, and none is lost in between.
  const sigset_t signals = forwarded_signals();
  sigset_t mask;
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &signals, &mask);
  result.pid = fork();
  if (result.pid == 0) become(command, mask, pipe_ends[1]);
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
