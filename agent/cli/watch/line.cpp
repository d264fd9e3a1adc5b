// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/line.h"

#include <algorithm>
#include <cstdio>

#include "agent/cli/text.h"

namespace cinch::cli {
std::string fit(std::string_view text, int wide) {
  // Before counting: a stray continuation byte would count as no character.
  const std::string whole = printable(text);
  return std::string(first_characters(whole, static_cast<std::size_t>(std::max(0, wide))));
}

std::string padded(std::string_view text, int wide, bool right) {
  std::string cell = fit(text, wide);
  const auto whole = static_cast<std::size_t>(std::max(0, wide));
  const std::string space(whole - std::min(whole, width(cell)), ' ');
  return right ? space + cell : cell + space;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.*f%%", share < 0.0995 ? 1 : 0, share * 100);
  return share < 0 ? "-" : text;
}

std::string bytes_or_dash(std::uint64_t bytes) {
  return bytes == 0 ? "-" : human_bytes(bytes);
}

std::vector<double> series(const telemetry::Run& run,
                           std::uint64_t telemetry::HistoryPoint::*what) {
  std::vector<double> values;
  for (const auto& point : run.history) values.push_back(static_cast<double>(point.*what));
  return values;
}

std::string sparkline(const std::vector<double>& values, int width, bool unicode) {
  static constexpr const char* blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* plain[] = {".", ":", "-", "=", "+", "*", "#", "@"};
  const auto& bars = unicode ? blocks : plain;
  if (width <= 0 || values.empty()) return "";
  const std::size_t count = std::min(values.size(), static_cast<std::size_t>(width));
  const double most = std::max(
      *std::max_element(values.end() - static_cast<std::ptrdiff_t>(count), values.end()), 0.0);
  std::string text;
  for (std::size_t i = values.size() - count; i < values.size(); ++i) {
    const double share = most > 0 ? std::clamp(values[i] / most, 0.0, 1.0) : 0;
    text += bars[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))];
  }
  return text;
}

}  // namespace cinch::cli
