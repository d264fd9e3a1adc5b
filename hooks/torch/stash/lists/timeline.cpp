// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/timeline.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "hooks/torch/process/process_memory.h"
#include "hooks/torch/program/op_context.h"

namespace cinch::hooks {
namespace {

// Reading the resident size costs some 20 us.
constexpr double rss_every_seconds = 0.1;

}  // namespace

Timeline::Timeline() : start_(Clock::now()), now_(nothing_yet()) {
  points_.reserve(most_points);
}

Timeline::Point Timeline::nothing_yet() {
  Point point;
  point.least_raw_bytes = point.least_stored_bytes = std::numeric_limits<std::uint64_t>::max();
  return point;
}

double Timeline::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Timeline::close_interval() {
  now_.seconds = seconds();
  now_.step = optimizer_steps();
  if (rss_read_at_ < 0 || now_.seconds - rss_read_at_ >= rss_every_seconds) {
    rss_read_at_ = now_.seconds;
    rss_bytes_ = resident_bytes();
  }
  now_.rss_bytes = rss_bytes_;
  points_.push_back(now_);
  now_ = nothing_yet();
  changes_ = 0;
  if (points_.size() == most_points) halve();
}

void Timeline::halve() {
  for (std::size_t i = 0; i < points_.size() / 2; ++i) {
    const Point& a = points_[2 * i];
    const Point& b = points_[2 * i + 1];
    Point both = a.raw_bytes > b.raw_bytes ? a : b;
    both.rss_bytes = std::max(a.rss_bytes, b.rss_bytes);
    both.least_raw_bytes = std::min(a.least_raw_bytes, b.least_raw_bytes);
    both.least_stored_bytes = std::min(a.least_stored_bytes, b.least_stored_bytes);
    points_[i] = both;
  }
  points_.resize(points_.size() / 2);
  stride_ *= 2;
}

void Timeline::decided(const char* kind, std::string subject, std::string detail) noexcept {
  if (events_.size() == most_events) {
    events_.pop_front();
    ++events_dropped_;
  }
  try {
    events_.push_back({seconds(), optimizer_steps(), kind, std::move(subject), std::move(detail)});
  } catch (const std::exception&) {
    ++events_dropped_;  // no memory
  }
}

void Timeline::fill(telemetry::Report& report) const {
  report.seconds = seconds();
  report.memory = points_;
  report.events.assign(events_.begin(), events_.end());
  report.events_dropped = events_dropped_;
}

void Timeline::restart() {
  start_ = Clock::now();
  points_.clear();
  now_ = nothing_yet();
  changes_ = 0;
  stride_ = 1;
  rss_read_at_ = -1;
  events_.clear();
  events_dropped_ = 0;
}

}  // namespace cinch::hooks
