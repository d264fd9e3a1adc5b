// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/process.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cinch::telemetry {
namespace {

// The start of a small file, zero-terminated; "" when it can't be read.
template <std::size_t capacity>
void read_start(const char* path, char (&text)[capacity]) {
  text[0] = '\0';
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t count = read(file, text, capacity - 1);
  close(file);
  text[count > 0 ? count : 0] = '\0';
}

// Field `number` (from 1) of /proc/PID/stat; 0 when there is no such process.
std::uint64_t stat_field(std::uint64_t pid, int number) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%llu/stat", static_cast<unsigned long long>(pid));
  char text[1024];
  read_start(path, text);
  // The second field is the name in parentheses, which may hold anything.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return 0;
  // A zombie counts as gone: it has no memory any more.
  if (at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X')) return 0;
  for (int field = 2; field < number && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at + 1, nullptr, 10);
}

std::uint64_t own_namespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

std::uint64_t start_ticks_of(std::uint64_t pid) {
  return stat_field(pid, 22);
}

std::uint64_t parent_of(std::uint64_t pid) {
  return stat_field(pid, 4);
}

ProcessKey own_process() {
  const auto pid = static_cast<std::uint64_t>(getpid());
  return {geteuid(), pid, start_ticks_of(pid), own_namespace()};
}

std::string boot_id() {
  char text[64];
  read_start("/proc/sys/kernel/random/boot_id", text);
  text[std::strcspn(text, "\n")] = '\0';
  return text;
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (c == '\0') c = ' ';
  }
  return text;
}

Life life_of(const ProcessKey& process) {
  // A process without /proc does not know its own start ticks.
  if (process.start_ticks == 0 || process.pid_namespace != own_namespace()) return Life::elsewhere;
  return start_ticks_of(process.pid) == process.start_ticks ? Life::alive : Life::gone;
}

std::string segment_name(const ProcessKey& process) {
  return "cinch-" + std::to_string(process.uid) + '-' + std::to_string(process.pid) + '-' +
         std::to_string(process.start_ticks) + '-' + std::to_string(process.pid_namespace);
}

std::optional<ProcessKey> parse_segment_name(std::string_view name) {
  constexpr std::string_view prefix = "cinch-";
  if (!name.starts_with(prefix)) return std::nullopt;
  ProcessKey key;
  const char* at = name.data() + prefix.size();
  const char* const end = name.data() + name.size();
  std::uint64_t* const parts[] = {&key.uid, &key.pid, &key.start_ticks, &key.pid_namespace};
  for (std::uint64_t* part : parts) {
    if (part != parts[0] && (at == end || *at++ != '-')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, *part);
    if (error != std::errc{}) return std::nullopt;
    at = next;
  }
  if (at != end || segment_name(key) != name) return std::nullopt;
  return key;
}

std::string with_pid(std::string path, std::uint64_t pid) {
  const std::string number = std::to_string(pid);
  for (auto at = path.find("%p"); at != path.npos; at = path.find("%p", at + number.size())) {
    path.replace(at, 2, number);
  }
  return path;
}

std::string segment_directory() {
  const char* directory = std::getenv("CINCH_TELEMETRY_DIR");
  return directory == nullptr || *directory == '\0' ? "/dev/shm" : directory;
}

std::uint64_t monotonic_now() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace cinch::telemetry
