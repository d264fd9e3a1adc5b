// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/writer.h"

#include <cstdlib>
#include <ctime>

#include <sys/mman.h>
#include <unistd.h>

#include "agent/telemetry/shared_file.h"

namespace cinch::telemetry {
namespace {

std::int64_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return -1;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  return *end == '\0' && value >= 0 ? value : -1;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

std::unique_ptr<Writer> Writer::create(const std::string& directory, const Identity& identity,
                                       std::string& error, void (*step)()) {
  const auto took_step = [step] {
    if (step != nullptr) step();
  };
  const std::string path =
      directory + '/' +
      segment_name({identity.uid, identity.pid, identity.start_ticks, identity.pid_namespace});
  void* memory = make_shared_file(path, sizeof(Segment), error, step);
  if (memory == nullptr) return nullptr;
  // Fresh pages are zero, which is the initial state of every part of a segment.
  auto* segment = static_cast<Segment*>(memory);
  segment->magic.store(segment_magic, std::memory_order_relaxed);
  took_step();
  segment->version.store(layout_version, std::memory_order_relaxed);
  segment->total_bytes.store(sizeof(Segment), std::memory_order_relaxed);
  segment->header_bytes.store(offsetof(Segment, policy), std::memory_order_relaxed);
  took_step();
  segment->identity = identity;
  took_step();
  segment->ready.store(1, std::memory_order_release);
  took_step();
  return std::unique_ptr<Writer>(new Writer(segment, path));
}

void Writer::remove() noexcept {
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

void Writer::forget() noexcept {
  munmap(segment_, sizeof(Segment));
  segment_ = nullptr;
}

Identity own_identity(const std::string& policy, const std::string& torch) {
  Identity identity;
  const ProcessKey self = own_process();
  identity.uid = self.uid;
  identity.pid = self.pid;
  identity.start_ticks = self.start_ticks;
  identity.pid_namespace = self.pid_namespace;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  identity.created_realtime = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
                              static_cast<std::uint64_t>(now.tv_nsec);
  identity.created = monotonic_now();
  identity.rank = number_in("RANK");
  identity.local_rank = number_in("LOCAL_RANK");
  identity.world = number_in("WORLD_SIZE");
  identity.boot_id.assign(boot_id().c_str());
  identity.job.assign(variable("TORCHELASTIC_RUN_ID").c_str());
  const std::string address = variable("MASTER_ADDR");
  if (!address.empty()) {
    identity.master.assign((address + ':' + variable("MASTER_PORT")).c_str());
  }
  identity.policy.assign(policy.c_str());
  identity.torch.assign(torch.c_str());
  identity.command.assign(command_line().c_str());
  return identity;
}

}  // namespace cinch::telemetry
