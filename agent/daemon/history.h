// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/telemetry/reader.h"

struct sqlite3;

namespace cinch::daemon {

/// What runs came to, kept on disk (SQLite) after they have ended. Bounded: beyond `most_runs` the
/// oldest go, and of a run with `most_points` every other point does. Thread-safe.
class History {
 public:
  static constexpr int most_runs = 200;
  static constexpr int most_points = 4096;

  /// Opens the file, private to this user, or makes it. Leaves alone what is another user's,
  /// another program's or no database. @throws std::runtime_error for people
  explicit History(const std::string& file);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  /// Adds what is new of `runs`. @param now Seconds since 1970 @throws std::runtime_error
  void record(const std::vector<telemetry::Run>& runs, double now);

  /// All runs, the last seen first, as JSON: {"version": 1, "runs": […]}. @throws
  /// std::runtime_error
  std::string runs_json();
  /// One with its points; nothing when it is not known. @throws std::runtime_error
  std::optional<std::string> run_json(std::int64_t id);

 private:
  class Statement;

  void execute(const char* sql);
  /// What `sql` asks for.
  std::int64_t number(const char* sql);
  void thin_out(std::int64_t id);

  std::mutex mutex_;
  sqlite3* database_ = nullptr;
};

/// $XDG_STATE_HOME/cinch/history.sqlite, or ~/.local/state/…; makes the folder, private to this
/// user.
/// @throws std::runtime_error for people
std::string default_history_file();

}  // namespace cinch::daemon
