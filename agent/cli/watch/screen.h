// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/cli/watch/line.h"
#include "agent/telemetry/reader.h"

namespace cinch::cli {

/// The state of `cinch watch`: takes data and keys, returns frames as plain text. Uses no terminal
/// and no clock.
class Screen {
 public:
  /// Keys that are no characters.
  enum Key : int { up = 256, down, page_up, page_down, home, end, enter, escape, backspace };

  struct Options {
    bool unicode = true;               ///< block characters in sparklines
    std::optional<std::uint64_t> pid;  ///< show only this process, beginning with its details
  };
  explicit Screen(const Options& options);

  /// Sets the runs to show. Does nothing while paused.
  void update(std::vector<telemetry::Run> runs);

  /// Handles a key. Returns false when the user quits.
  bool press(int key);

  /// @param height At least 3
  std::vector<ScreenLine> frame(int width, int height) const;

 private:
  enum class View : std::uint8_t { table, details, help };
  enum class Sort : std::uint8_t { job, ratio, raw, stored, step_time, cinch, guard };
  static constexpr int sorts = 7;

  std::vector<const telemetry::Run*> shown() const;
  const telemetry::Run* selected() const;
  void select(std::ptrdiff_t by);
  void move(int by);
  void open_details();
  void go_back();
  bool edit_filter(int key);
  std::string status(int width) const;
  std::vector<ScreenLine> table(int width) const;
  std::vector<ScreenLine> details(const telemetry::Run& run, int width) const;

  const Options options_;
  std::vector<telemetry::Run> runs_;
  std::optional<telemetry::ProcessKey> selected_;
  View view_ = View::table;
  View behind_help_ = View::table;
  Sort sort_ = Sort::job;
  bool reverse_ = false;
  bool paused_ = false;
  bool per_codec_ = false;
  bool editing_ = false;
  std::string filter_;
  int scroll_ = 0;  // of the details
};

}  // namespace cinch::cli
