// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/process_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace cinch::hooks {
namespace {

// The bytes in a line of /proc/self/status such as "VmHWM:   123456 kB"; 0 if there is none.
// getrusage's ru_maxrss would not do: it survives exec, so it may be that of the launcher's parent.
std::uint64_t status_bytes(const char* field) {
  std::FILE* status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return 0;
  char line[256];
  unsigned long long kilobytes = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    const std::size_t length = std::strlen(field);
    if (std::strncmp(line, field, length) == 0) {
      std::sscanf(line + length, ": %llu", &kilobytes);
      break;
    }
  }
  std::fclose(status);
  return kilobytes * 1024;
}

// The number after `field` at the beginning of a line of the file; 0 if there is none.
std::uint64_t number_in(const char* path, const char* field) {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  char line[256];
  unsigned long long number = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    const std::size_t length = std::strlen(field);
    if (std::strncmp(line, field, length) == 0 &&
        std::sscanf(line + length, "%llu", &number) == 1) {
      break;
    }
  }
  std::fclose(file);
  return number;
}

}  // namespace

std::size_t available_host_bytes() noexcept {
  std::uint64_t available = number_in("/proc/meminfo", "MemAvailable:") * 1024;
  const std::uint64_t most = number_in("/sys/fs/cgroup/memory.max", "");
  if (most != 0) {
    const std::uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");
    available = std::min(available, most - std::min(used, most));
  }
  return available;
}

std::uint64_t resident_bytes() noexcept {
  return status_bytes("VmRSS");
}

std::uint64_t peak_resident_bytes() noexcept {
  return status_bytes("VmHWM");
}

}  // namespace cinch::hooks
