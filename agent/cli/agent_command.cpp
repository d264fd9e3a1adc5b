// SPDX-License-Identifier: Apache-2.0
// cinch agent: keeps the history of this user's runs, and serves it and the current runs over HTTP.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/text.h"
#include "agent/cli/watch/json.h"
#include "agent/daemon/broker.h"
#include "agent/daemon/history.h"
#include "agent/daemon/metrics.h"
#include "agent/daemon/server.h"
#include "agent/telemetry/agent_post.h"
#include "agent/telemetry/reader.h"

namespace cinch::cli {
namespace {

double realtime_now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// The runs as last read, and what is wrong with the agent. Thread-safe.
class Latest {
 public:
  void set(std::vector<telemetry::Run> runs) {
    const std::lock_guard lock(mutex_);
    slots_ = assigned_.assign(runs);
    runs_ = std::make_shared<const std::vector<telemetry::Run>>(std::move(runs));
  }
  std::shared_ptr<const std::vector<telemetry::Run>> runs() const {
    const std::lock_guard lock(mutex_);
    return runs_;
  }
  std::string metrics() const {
    const std::lock_guard lock(mutex_);
    return daemon::prometheus_text(*runs_, slots_);
  }
  void history_fault(std::string text) {
    const std::lock_guard lock(mutex_);
    history_fault_ = std::move(text);
  }
  void sharing_fault(std::string text) {
    const std::lock_guard lock(mutex_);
    sharing_fault_ = std::move(text);
  }
  std::string health() const {
    const std::lock_guard lock(mutex_);
    const bool both = !history_fault_.empty() && !sharing_fault_.empty();
    const std::string fault = history_fault_ + (both ? "; " : "") + sharing_fault_;
    using Json = nlohmann::ordered_json;
    return Json{
        {"status", fault.empty() ? "ok" : "degraded"}, {"fault", fault}, {"runs", runs_->size()}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<telemetry::Run>> runs_ =
      std::make_shared<const std::vector<telemetry::Run>>();
  daemon::Slots assigned_;
  std::vector<int> slots_;
  std::string history_fault_;
  std::string sharing_fault_;
};

/// The history, or none: the agent shows the current runs all the same.
struct Kept {
  std::string file;
  std::unique_ptr<daemon::History> history;
  std::string fault;  ///< why there is none

  explicit Kept(std::string wanted) : file(std::move(wanted)) {
    try {
      if (file.empty()) file = daemon::default_history_file();
      history = std::make_unique<daemon::History>(file);
    } catch (const std::exception& error) {
      fault = error.what();
    }
  }
  daemon::History& get() const {
    if (history == nullptr) throw std::runtime_error(fault);
    return *history;
  }
};

}  // namespace

int agent(const AgentOptions& options) try {
  // Blocked here and in the threads started below; sigtimedwait takes them.
  sigset_t ending;
  sigemptyset(&ending);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ending, number);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a client may disconnect

  const Kept kept(options.history);
  Latest latest;
  const std::string directory = telemetry::segment_directory();
  const auto look = [&] {
    auto runs = telemetry::read_runs(directory);
    try {
      kept.get().record(runs, realtime_now());
      latest.history_fault("");
    } catch (const std::exception& error) {
      latest.history_fault(error.what());  // a full disk, say
    }
    latest.set(std::move(runs));
  };
  look();
  const char* token = std::getenv("CINCH_AGENT_TOKEN");
  const daemon::Server server(
      options.listen, token == nullptr ? "" : token,
      {[&] { return latest.metrics(); }, [&] { return latest.health(); },
       [&] { return runs_json(*latest.runs()); }, [&] { return kept.get().runs_json(); },
       [&](std::int64_t id) { return kept.get().run_json(id).value_or(""); }});
  // Taken before the line below is printed: its readers may count on memory being shared.
  std::string untold;  // not shown: the broker tries again and tells
  auto post = telemetry::AgentPost::take(directory, untold);
  const std::string history =
      kept.history == nullptr ? "no history: " + kept.fault : "history in " + kept.file;
  std::fprintf(stderr, "cinch agent: http://%s/, %s\n", server.address().c_str(),
               printable(history).c_str());
  const auto tell = [&latest](const std::string& fault) {
    latest.sharing_fault(fault);
    if (fault.empty()) return;
    std::fprintf(stderr, "cinch agent: processes do not share memory: %s\n",
                 printable(fault).c_str());
  };
  const daemon::Broker broker(directory, tell, std::move(post));
  const auto whole = static_cast<std::time_t>(options.interval);
  const timespec interval = {
      whole, static_cast<long>((options.interval - static_cast<double>(whole)) * 1e9)};
  for (;;) {
    const int number = sigtimedwait(&ending, nullptr, &interval);
    if (number > 0) return 0;
    if (errno == EAGAIN) look();
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "cinch agent: %s\n", printable(error.what()).c_str());
  return usage_error;
}

}  // namespace cinch::cli
