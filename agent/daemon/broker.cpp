// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon/broker.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "agent/telemetry/give.h"

namespace cinch::daemon {
namespace {

using telemetry::Run;
using telemetry::RunState;

constexpr std::uint64_t look_period = 1'000'000'000;  // nanoseconds
/// Nanoseconds. Nobody waits for an older Want any more.
constexpr std::uint64_t oldest_want = 10'000'000'000;
/// Seconds that one process may take to give back: it waits for its device first.
constexpr double patience = 1;

bool is_alive(const Run& run) {
  return run.state == RunState::running || run.state == RunState::stale;
}

}  // namespace

std::vector<Giver> givers(const std::vector<Run>& runs, std::size_t asker) {
  const std::string device = runs[asker].want->device.str();
  std::vector<Giver> found;
  if (device.empty()) return found;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i == asker || !is_alive(runs[i])) continue;
    for (const auto& figures : runs[i].devices) {
      if (figures.index < 0 || figures.name.str() != device) continue;
      const std::uint64_t idle = figures.reserved - std::min(figures.reserved, figures.allocated);
      found.push_back({i, static_cast<std::uint64_t>(figures.index), idle});
    }
  }
  std::ranges::stable_sort(found, std::greater{}, &Giver::idle);
  return found;
}

Broker::Broker(std::string directory, std::function<void(const std::string&)> tell,
               std::unique_ptr<telemetry::AgentPost> post)
    : directory_(std::move(directory)),
      tell_(std::move(tell)),
      post_(std::move(post)),
      thread_([this](const std::stop_token& stop) { loop(stop); }) {}

Broker::~Broker() = default;

void Broker::loop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any waiting;
  while (!stop.stop_requested()) {
    std::string error;
    if (post_ == nullptr) post_ = telemetry::AgentPost::take(directory_, error);
    tell(error);
    if (post_ == nullptr) {
      // Another agent holds the post, another user has its name, or there is no room: try again.
      std::unique_lock lock(mutex);
      waiting.wait_for(lock, stop, std::chrono::nanoseconds(look_period), [] { return false; });
      continue;
    }
    const std::stop_callback end(stop, [this] { post_->ring(); });
    while (!stop.stop_requested()) {
      const std::uint64_t rung = post_->rung();
      look();
      if (!stop.stop_requested()) post_->wait(rung, look_period);
    }
  }
  post_.reset();
}

void Broker::tell(const std::string& fault) {
  if (fault == told_ || tell_ == nullptr) return;
  told_ = fault;
  tell_(fault);
}

void Broker::look() {
  try {
    const std::vector<Run> runs = telemetry::read_runs(directory_);
    std::erase_if(seen_to_, [&](const auto& seen) {
      return std::ranges::find(runs, seen.first, &Run::process) == runs.end();
    });
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].want && is_alive(runs[i])) serve(runs, i);
    }
  } catch (const std::exception&) {
    // Out of memory, for example. Processes that wait for an answer give up by themselves.
  }
}

void Broker::serve(const std::vector<Run>& runs, std::size_t asker) {
  const Run& run = runs[asker];
  auto seen = std::ranges::find(seen_to_, run.process,
                                &std::pair<telemetry::ProcessKey, std::uint64_t>::first);
  if (seen == seen_to_.end()) seen = seen_to_.insert(seen_to_.end(), {run.process, 0});
  if (seen->second == run.want->number) return;
  seen->second = run.want->number;
  const std::uint64_t now = telemetry::monotonic_now();
  if (now > run.want->time + oldest_want) return;
  std::uint64_t bytes = 0;
  for (const Giver& giver : givers(runs, asker)) {
    const auto given =
        telemetry::ask_to_give(directory_, runs[giver.run].process, giver.device, patience);
    bytes += given.value_or(0);
    if (bytes >= run.want->bytes) break;
  }
  telemetry::answer_want(directory_, run.process, run.want->number, bytes);
}

}  // namespace cinch::daemon
