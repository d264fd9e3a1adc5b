// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon/history.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/metrics.h"
#include "agent/telemetry/descriptor.h"

namespace cinch::daemon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using telemetry::Run;

constexpr int schema_version = 1;
constexpr const char* schema = R"(
  CREATE TABLE runs (
    id INTEGER PRIMARY KEY, boot_id TEXT NOT NULL, pid INTEGER NOT NULL,
    start_ticks INTEGER NOT NULL, namespace INTEGER NOT NULL, job TEXT NOT NULL, rank INTEGER,
    world_size INTEGER, policy TEXT, torch TEXT, command TEXT, started REAL, last_seen REAL,
    steps INTEGER, raw_bytes_at_peak INTEGER, stored_bytes_at_peak INTEGER, seconds_in_cinch REAL,
    guard_moves INTEGER, rescues INTEGER, peak_rss_bytes INTEGER,
    UNIQUE (boot_id, pid, start_ticks, namespace));
  CREATE INDEX runs_by_time ON runs (last_seen);
  CREATE TABLE points (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, step INTEGER NOT NULL, time REAL,
    step_seconds REAL, raw_bytes INTEGER, stored_bytes INTEGER, seconds_in_cinch REAL,
    allocated_bytes INTEGER, reserved_bytes INTEGER, PRIMARY KEY (run, step)) WITHOUT ROWID;
)";

/// Makes the file if there is none, and makes it private. SQLite would make it, and the files
/// beside it, with the umask's rights. @throws std::runtime_error with a message for people
void make_private(const std::string& file) {
  // O_NONBLOCK: opening a FIFO must not wait.
  const telemetry::Descriptor made(
      open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat info;
  if (made.number() < 0 || fstat(made.number(), &info) != 0) {
    throw std::runtime_error(std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) throw std::runtime_error("it is no regular file");
  if (info.st_uid != geteuid()) throw std::runtime_error("it is another user's");
  if ((info.st_mode & 077) != 0 && fchmod(made.number(), 0600) != 0) {
    throw std::runtime_error(std::strerror(errno));
  }
}

}  // namespace

/// A prepared statement: bind in order, then step.
class History::Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    check(sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& operator<<(std::int64_t value) {
    check(sqlite3_bind_int64(statement_, ++bound_, value));
    return *this;
  }
  Statement& operator<<(std::uint64_t value) { return *this << static_cast<std::int64_t>(value); }
  Statement& operator<<(int value) { return *this << static_cast<std::int64_t>(value); }
  Statement& operator<<(double value) {
    check(sqlite3_bind_double(statement_, ++bound_, value));
    return *this;
  }
  Statement& operator<<(const std::string& text) {
    check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT));
    return *this;
  }
  /// Whether there is a row.
  bool step() {
    const int result = sqlite3_step(statement_);
    if (result != SQLITE_ROW && result != SQLITE_DONE) check(result);
    return result == SQLITE_ROW;
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  /// The row as an object, by the columns' names.
  Json object() const {
    Json json;
    for (int i = 0; i < sqlite3_column_count(statement_); ++i) {
      Json& value = json[sqlite3_column_name(statement_, i)];
      switch (sqlite3_column_type(statement_, i)) {
        case SQLITE_INTEGER:
          value = sqlite3_column_int64(statement_, i);
          break;
        case SQLITE_FLOAT:
          value = sqlite3_column_double(statement_, i);
          break;
        case SQLITE_TEXT:
          value = std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement_, i)),
                              static_cast<std::size_t>(sqlite3_column_bytes(statement_, i)));
          break;
        default:
          break;
      }
    }
    return json;
  }

 private:
  void check(int result) const {
    if (result != SQLITE_OK) {
      throw std::runtime_error(std::string("the history: ") + sqlite3_errmsg(database_));
    }
  }
  sqlite3* const database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

History::History(const std::string& file) {
  try {
    make_private(file);
    const int result = sqlite3_open_v2(file.c_str(), &database_, SQLITE_OPEN_READWRITE, nullptr);
    if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errstr(result));
    sqlite3_busy_timeout(database_, 2000);
    // Checked before anything is written: the file may be another program's.
    const std::int64_t version = number("PRAGMA user_version");
    const bool is_empty = number("SELECT count(*) FROM sqlite_master") == 0;
    if (version > schema_version) {
      throw std::runtime_error("it is of version " + std::to_string(version) +
                               ", this cinch knows " + std::to_string(schema_version));
    }
    if (version == 0 && !is_empty) {
      throw std::runtime_error("it is a database of another program");
    }
    execute("PRAGMA journal_mode = WAL");
    execute("PRAGMA synchronous = NORMAL");
    execute("PRAGMA foreign_keys = ON");
    if (version == 0) {
      execute("BEGIN IMMEDIATE");
      execute(schema);
      execute("PRAGMA user_version = 1");
      execute("COMMIT");
    }
  } catch (const std::exception& error) {
    sqlite3_close(database_);
    throw std::runtime_error("cannot use the history " + file + ": " + error.what());
  }
}

History::~History() {
  sqlite3_close(database_);
}

std::int64_t History::number(const char* sql) {
  Statement asked(database_, sql);
  return asked.step() ? asked.integer(0) : 0;
}

void History::execute(const char* sql) {
  char* message = nullptr;
  if (sqlite3_exec(database_, sql, nullptr, nullptr, &message) == SQLITE_OK) return;
  const std::string text = message == nullptr ? "no memory" : message;
  sqlite3_free(message);
  throw std::runtime_error("the history: " + text);
}

void History::record(const std::vector<Run>& runs, double now) {
  const std::lock_guard lock(mutex_);
  execute("BEGIN IMMEDIATE");
  try {
    for (const Run& run : runs) {
      if (!run.live) continue;
      const auto& who = run.identity;
      const auto& live = *run.live;
      Statement add(database_,
                    "INSERT INTO runs (boot_id, pid, start_ticks, namespace, job, rank, world_size,"
                    " policy, torch, command, started, last_seen, steps, raw_bytes_at_peak,"
                    " stored_bytes_at_peak, seconds_in_cinch, guard_moves, rescues, peak_rss_bytes)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (boot_id, pid, start_ticks, namespace) DO UPDATE SET"
                    " last_seen = excluded.last_seen, steps = excluded.steps,"
                    " raw_bytes_at_peak = excluded.raw_bytes_at_peak,"
                    " stored_bytes_at_peak = excluded.stored_bytes_at_peak,"
                    " seconds_in_cinch = excluded.seconds_in_cinch,"
                    " guard_moves = excluded.guard_moves, rescues = excluded.rescues,"
                    " peak_rss_bytes = max(peak_rss_bytes, excluded.peak_rss_bytes)"
                    " RETURNING id");
      // A run that is gone was last seen at its last heartbeat.
      const double silent = live.heartbeat < run.read_at
                                ? static_cast<double>(run.read_at - live.heartbeat) * 1e-9
                                : 0;
      const double seen = run.state == telemetry::RunState::gone ? now - silent : now;
      add << who.boot_id.str() << run.process.pid << run.process.start_ticks
          << run.process.pid_namespace << job_label(run) << who.rank << who.world
          << who.policy.str() << who.torch.str() << who.command.str()
          << static_cast<double>(who.created_realtime) * 1e-9 << seen << live.steps
          << live.raw_at_peak << live.stored_at_peak
          << static_cast<double>(live.nanoseconds_in_cinch) * 1e-9 << live.guard_moves
          << live.rescues << run.peak_rss;
      add.step();
      const std::int64_t id = add.integer(0);
      while (add.step()) {
      }
      if (run.history.empty()) continue;
      const auto& p = run.history.back();
      Statement point(database_, "INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
      const double ago =
          p.time < run.read_at ? static_cast<double>(run.read_at - p.time) * 1e-9 : 0;
      point << id << p.step << now - ago << static_cast<double>(p.step_nanoseconds) * 1e-9 << p.raw
            << p.stored << static_cast<double>(p.nanoseconds_in_cinch) * 1e-9 << p.allocated
            << p.reserved;
      point.step();
      thin_out(id);
    }
    Statement old(database_,
                  "DELETE FROM runs WHERE id IN"
                  " (SELECT id FROM runs ORDER BY last_seen DESC, id DESC LIMIT -1 OFFSET ?)");
    old << most_runs;
    old.step();
    execute("COMMIT");
  } catch (const std::exception&) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

// Deletes every other point of a run with too many.
void History::thin_out(std::int64_t id) {
  Statement counted(database_, "SELECT count(*) FROM points WHERE run = ?");
  counted << id;
  if (!counted.step() || counted.integer(0) < most_points) return;
  Statement thin(database_,
                 "DELETE FROM points WHERE run = ?1 AND step IN (SELECT step FROM (SELECT step,"
                 " row_number() OVER (ORDER BY step) AS n FROM points WHERE run = ?1)"
                 " WHERE n % 2 = 0)");
  thin << id;
  thin.step();
}

std::string History::runs_json() {
  const std::lock_guard lock(mutex_);
  Statement all(database_, "SELECT * FROM runs ORDER BY last_seen DESC, id DESC");
  Json json = {{"version", 1}, {"runs", Json::array()}};
  while (all.step()) json["runs"].push_back(all.object());
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> History::run_json(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  Statement one(database_, "SELECT * FROM runs WHERE id = ?");
  one << id;
  if (!one.step()) return std::nullopt;
  Json json = {{"version", 1}, {"run", one.object()}, {"points", Json::array()}};
  Statement points(database_,
                   "SELECT step, time, step_seconds, raw_bytes, stored_bytes, seconds_in_cinch,"
                   " allocated_bytes, reserved_bytes FROM points WHERE run = ? ORDER BY step");
  points << id;
  while (points.step()) json["points"].push_back(points.object());
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string default_history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home == '/') {
    folder = fs::path(home) / ".local/state";
  } else {
    throw std::runtime_error(
        "neither XDG_STATE_HOME nor HOME says where the history goes: use "
        "--history FILE");
  }
  folder /= "cinch";
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (!fs::exists(folder) && mkdir(folder.c_str(), 0700) != 0) {
    throw std::runtime_error("cannot make the folder " + folder.string() + ": use --history FILE");
  }
  return folder / "history.sqlite";
}

}  // namespace cinch::daemon
