// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/program/descendant.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "agent/telemetry/descriptor.h"

namespace cinch::cli {
namespace {

bool is_descendant(std::uint64_t pid) {
  constexpr int most_generations = 1000;
  const auto self = static_cast<std::uint64_t>(getpid());
  for (int i = 0; i < most_generations && pid > 1; ++i) {
    pid = telemetry::parent_of(pid);
    if (pid == self) return true;
  }
  return false;
}

}  // namespace

bool signal_descendant(const telemetry::ProcessKey& process, int number) {
  // syscall(), since glibc has these functions only from 2.36 on.
  const auto pid = static_cast<pid_t>(process.pid);
  if (pid <= 1) return false;
  const telemetry::Descriptor held(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (held.number() < 0) return false;
  // Checked only after the pidfd is open: before, the number could still become another process's.
  if (telemetry::life_of(process) != telemetry::Life::alive || !is_descendant(process.pid)) {
    return false;
  }
  return syscall(SYS_pidfd_send_signal, held.number(), number, nullptr, 0) == 0;
}

}  // namespace cinch::cli
