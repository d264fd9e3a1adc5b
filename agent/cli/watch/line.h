// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/telemetry/reader.h"

/// Building blocks of the lines of `cinch watch`. Widths are in characters; text is UTF-8.
namespace cinch::cli {

/// A line of a frame: no wider than the frame, without escape sequences.
struct ScreenLine {
  enum class Look : std::uint8_t { plain, title, header, selected, dim, bad };
  std::string text;
  Look look = Look::plain;
};

/// How wide the column of a sparkline is.
inline constexpr int spark_width = 16;

/// Cuts `text` to `wide` characters. Control characters, which would move a terminal's cursor, are
/// shown as '?'.
std::string fit(std::string_view text, int wide);
/// Cuts or pads `text` to `wide` characters. @param right Pad on the left
std::string padded(std::string_view text, int wide, bool right);

/// "12%"; "-" for a share below 0, which means unknown.
std::string percent(double share);
/// "-" for 0.
std::string bytes_or_dash(std::uint64_t bytes);

/// One figure of each point of a run's history.
std::vector<double> series(const telemetry::Run& run, std::uint64_t telemetry::HistoryPoint::*what);

/// The last `width` values as bars, scaled from 0 to their maximum.
std::string sparkline(const std::vector<double>& values, int width, bool unicode);

}  // namespace cinch::cli
