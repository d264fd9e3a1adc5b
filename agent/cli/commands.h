// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The subcommands. Each prints its result and returns the process's exit status.
namespace cinch::cli {

inline constexpr int usage_error = 2;  ///< bad policy, bad usage, or an incomplete installation

struct RunOptions {
  std::string policy = "default";  ///< a preset's name, or a path
  std::string report;              ///< file for the report; "" for none
  std::string snapshot;            ///< file for a snapshot of CUDA's allocator; "" for none
  bool strict = false;
  bool disable = false;
  bool no_telemetry = false;
  bool quiet = false;
  bool dry_run = false;
  std::vector<std::string> policies;  ///< of a dry run; empty: all presets but "off"
  bool json = false;                  ///< a dry run's result as JSON
  bool keep_running = false;          ///< a dry run lets the program go on
  std::vector<std::string> command;
};
int run(const RunOptions& options);

struct EnvOptions {
  std::string policy = "default";  ///< a preset's name, or a path
  std::string report;              ///< file for each process's report; "" for none
  std::string format = "sh";       ///< "sh", "fish" or "plain": NAME=VALUE
};
int print_environment(const EnvOptions& options);

int check_policy(const std::string& file);
int explain_policy(const std::string& file);
int list_policies();
int show_policy(const std::string& name);

struct AdviseOptions {
  std::vector<std::string> policies;  ///< empty: all presets but "off"
  std::uint64_t memory = 0;           ///< bytes; 0: the memory available now
  std::uint64_t batch = 0;            ///< the program's batch size; 0: guess
  std::uint64_t most = 0;             ///< upper bound of the advised batch size; 0: none
  std::uint64_t warm_up = 20;         ///< steps of each policy before any are measured
  std::uint64_t steps = 20;           ///< of each policy that are measured
  bool json = false;
  std::vector<std::string> command;
};
int advise_batch_size(const AdviseOptions& options);
int advise_policy(const AdviseOptions& options);

struct ReportOptions {
  std::string file;
  std::string other;  ///< to compare with; "" for none
  std::string html;   ///< file for an HTML page; "": print text
};
int show_report(const ReportOptions& options);

struct ReplayOptions {
  std::vector<std::string> files;             ///< traces, or memory snapshots that PyTorch pickled
  std::size_t memory = std::size_t{1} << 40;  ///< of the fake device, bytes
  double lag = 0;     ///< of the fake device behind the host, in steps of the trace
  std::string write;  ///< file for the trace, compressed, instead of replaying it; "": replay
  bool json = false;
};
int replay(const ReplayOptions& options);

struct WatchOptions {
  std::optional<std::uint64_t> pid;  ///< only this process
  double interval = 1;               ///< seconds between two readings of the segments
  bool once = false;
  bool json = false;
};
int watch(const WatchOptions& options);

struct CtlOptions {
  std::string target;        ///< a process's number, or a job's name
  std::string policy;        ///< a preset's name, or a path. Exactly one of this to `resume` is set
  std::uint64_t budget = 0;  ///< bytes
  std::string snapshot;      ///< a file
  bool empty_cache = false;
  bool pause = false;
  bool resume = false;
  double timeout = 60;  ///< seconds to wait for each process's answer
  bool json = false;
};
int ctl(const CtlOptions& options);

struct AgentOptions {
  std::string listen = "127.0.0.1:9464";  ///< HOST:PORT
  std::string history;                    ///< the history's file; "": default_history_file()
  double interval = 1;                    ///< seconds between two readings of the segments
};
/// Runs until SIGINT, SIGTERM or SIGHUP.
int agent(const AgentOptions& options);

struct DoctorOptions {
  std::string python = "python3";
  std::string policy = "default";  ///< a preset's name, or a path
  bool json = false;
};
int doctor(const DoctorOptions& options);

}  // namespace cinch::cli
