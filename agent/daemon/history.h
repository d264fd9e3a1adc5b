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

/// The figures of runs, kept on disk (SQLite) after they have ended. Bounded: deletes the oldest
/// runs beyond `most_runs`, and every other point of a run that has `most_points`. Thread-safe.
class History {
 public:
  static constexpr int most_runs = 200;
  static constexpr int most_points = 4096;

  /// Opens or makes the file, private to this user. Does not change a file that is another user's,
  /// another program's, or no database. @throws std::runtime_error with a message for people
  explicit History(const std::string& file);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  /// Stores the latest figures and the last point of each of `runs`.
  /// @param now Seconds since 1970 @throws std::runtime_error
  void record(const std::vector<telemetry::Run>& runs, double now);

  /// All runs as JSON, last seen first: {"version": 1, "runs": […]}. @throws std::runtime_error
  std::string runs_json();
  /// One run with its points; nothing when `id` is not known. @throws std::runtime_error
  std::optional<std::string> run_json(std::int64_t id);

 private:
  class Statement;

  void execute(const char* sql);
  /// The integer that `sql` selects; 0 when it selects none.
  std::int64_t number(const char* sql);
  void thin_out(std::int64_t id);

  std::mutex mutex_;
  sqlite3* database_ = nullptr;
};

/// $XDG_STATE_HOME/cinch/history.sqlite, or ~/.local/state/…; makes the folder, private to this
/// user. @throws std::runtime_error with a message for people
std::string default_history_file();

}  // namespace cinch::daemon
