// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/reader.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <tuple>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/telemetry/control.h"
#include "agent/telemetry/descriptor.h"

namespace cinch::telemetry {
namespace {

namespace fs = std::filesystem;
namespace ipc = boost::interprocess;

constexpr int live_tries = 64;
constexpr std::size_t fixed_bytes = 5 * sizeof(Word);

void read_live(const Segment& segment, Run& run) {
  for (int i = 0; i < live_tries; ++i) {
    const std::uint64_t published = segment.published.load(std::memory_order_acquire);
    if (published == 0) return;
    LiveFigures figures;
    // The writer is at the other slot; it returns to this one only after publishing that.
    if (segment.live[published % 2].load(figures, 1)) {
      run.live = figures;
      return;
    }
  }
  ++run.torn;
  run.state = RunState::stale;
  run.note = "its figures were being written at each look";
}

void read_rows(const Segment& segment, Run& run) {
  const std::uint64_t used =
      std::min<std::uint64_t>(segment.rows_used.load(std::memory_order_acquire), most_rows);
  for (std::uint64_t i = 0; i < used; ++i) {
    RowFigures figures;
    const Segment::Row& row = segment.rows[i];
    if (row.figures.load(figures)) {
      run.rows.push_back({row.key.op.str(), row.key.operand.str(), row.key.codec.str(), figures});
    } else {
      ++run.torn;
    }
  }
  run.rows_dropped = segment.rows_dropped.load(std::memory_order_relaxed);
}

// Appends the points that the ring still holds, oldest first; returns how many are lost.
template <typename T, std::size_t length>
std::uint64_t read_ring(const Slot<T> (&ring)[length], std::uint64_t count,
                        std::vector<T>& points) {
  const std::uint64_t first = count > length ? count - length : 0;
  std::uint64_t lost = first;
  for (std::uint64_t i = first; i < count; ++i) {
    T point;
    if (ring[i % length].load(point) && point.number == i + 1) {
      points.push_back(point);
    } else {
      ++lost;
    }
  }
  return lost;
}

void read_memory_of(const ProcessKey& process, Run& run) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%llu/status",
                static_cast<unsigned long long>(process.pid));
  std::FILE* status = std::fopen(path, "re");
  if (status == nullptr) return;
  char line[256];
  while (std::fgets(line, sizeof line, status) != nullptr) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line, "VmRSS: %llu", &kilobytes) == 1) run.rss = kilobytes * 1024;
    if (std::sscanf(line, "VmHWM: %llu", &kilobytes) == 1) run.peak_rss = kilobytes * 1024;
  }
  std::fclose(status);
}

// Seconds since the file's last change.
double age_of(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return 0;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec - info.st_mtim.tv_sec);
}

}  // namespace

std::string_view word(RunState state) noexcept {
  switch (state) {
    case RunState::starting:
      return "starting";
    case RunState::running:
      return "running";
    case RunState::gone:
      return "gone";
    case RunState::stale:
      return "stale";
    case RunState::foreign:
      return "foreign";
    case RunState::unreadable:
      break;
  }
  return "unreadable";
}

Run read_segment(std::span<const std::byte> memory) {
  Run run;
  run.read_at = monotonic_now();
  if (memory.size() < fixed_bytes) {
    run.state = RunState::starting;
    return run;
  }
  const auto& segment = *reinterpret_cast<const Segment*>(memory.data());
  if (segment.ready.load(std::memory_order_acquire) != 1) {
    run.state = RunState::starting;
    return run;
  }
  if (segment.magic.load(std::memory_order_relaxed) != segment_magic) {
    run.note = "no segment of Cinch's";
    return run;
  }
  const std::uint64_t version = segment.version.load(std::memory_order_relaxed);
  if (version != layout_version) {
    run.state = RunState::foreign;
    run.note = "found telemetry layout " + std::to_string(version) + ", this cinch reads " +
               std::to_string(layout_version) + ": use the cinch that runs it";
    return run;
  }
  if (segment.total_bytes.load(std::memory_order_relaxed) != sizeof(Segment) ||
      memory.size() < sizeof(Segment)) {
    run.note = "its size is not what its layout says";
    return run;
  }
  run.state = RunState::running;
  run.identity = segment.identity;
  if (Text<128> changed; segment.policy.load(changed)) run.identity.policy = changed;
  read_live(segment, run);
  read_rows(segment, run);
  for (const auto& slot : segment.devices) {
    if (DeviceFigures figures; slot.load(figures)) run.devices.push_back(figures);
  }
  if (Want want; segment.want.load(want)) run.want = want;
  run.history_dropped = read_ring(
      segment.history, segment.history_count.load(std::memory_order_acquire), run.history);
  run.events_dropped =
      read_ring(segment.events, segment.event_count.load(std::memory_order_acquire), run.events);
  return run;
}

Run read_run(const std::string& directory, const ProcessKey& process) {
  Run run;
  run.process = process;
  run.read_at = monotonic_now();
  const std::string path = directory + '/' + segment_name(process);
  const Life life = life_of(process);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (file.number() < 0 || fstat(file.number(), &info) != 0) {
    run.state = RunState::gone;
    return run;
  }
  if (!is_private_file(info)) {
    run.note = "not a private file of this user's";
    return run;
  }
  try {
    if (static_cast<std::size_t>(info.st_size) < fixed_bytes) {
      run.state = RunState::starting;
    } else {
      // Map the file that was checked, even if the path names another one by now.
      const std::string opened = "/proc/self/fd/" + std::to_string(file.number());
      const ipc::file_mapping mapping(opened.c_str(), ipc::read_only);
      const ipc::mapped_region region(mapping, ipc::read_only);
      run = read_segment({static_cast<const std::byte*>(region.get_address()), region.get_size()});
      run.process = process;
    }
  } catch (const ipc::interprocess_exception& error) {
    run.note = error.what();
    return run;
  }
  const bool known = run.state == RunState::running || run.state == RunState::stale;
  if (known && run.identity.boot_id.str() != boot_id()) {
    run.state = RunState::gone;  // of an earlier boot
    return run;
  }
  if (life == Life::gone && run.state != RunState::unreadable) {
    run.state = RunState::gone;
    return run;
  }
  if (life == Life::alive) read_memory_of(process, run);
  return run;
}

std::vector<Run> read_runs(const std::string& directory, double keep_gone) {
  std::vector<Run> runs;
  std::error_code error;
  const std::uint64_t uid = geteuid();
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    const auto process = parse_segment_name(name);
    if (!process || process->uid != uid) continue;
    Run run = read_run(directory, *process);
    if (run.state == RunState::gone) {
      const std::string path = directory + '/' + name;
      // The file's age counts when there are no figures, or only from an earlier boot's clock.
      const bool same_clock = run.live && run.live->heartbeat <= run.read_at;
      const double silent =
          same_clock ? static_cast<double>(run.read_at - run.live->heartbeat) * 1e-9 : age_of(path);
      if (!run.live || silent > keep_gone) {
        unlink(path.c_str());
        unlink(control_path(directory, *process).c_str());
        continue;
      }
    }
    runs.push_back(std::move(run));
  }
  std::ranges::sort(runs, [](const Run& a, const Run& b) {
    const auto key = [](const Run& r) {
      return std::tuple(job_of(r), r.identity.rank, r.process.pid, r.process.start_ticks);
    };
    return key(a) < key(b);
  });
  return runs;
}

std::string job_of(const Run& run) {
  const std::string job = run.identity.job.str();
  const std::string master = run.identity.master.str();
  // "none" is what torchrun says when nobody named the job.
  const bool named = !job.empty() && job != "none";
  if (named && !master.empty()) return job + " " + master;
  if (named) return job;
  if (!master.empty() && run.identity.rank >= 0) return master;
  return std::to_string(run.process.pid);
}

}  // namespace cinch::telemetry
