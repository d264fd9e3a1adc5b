// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/telemetry/reader.h"

namespace cinch::cli {

/// A figure of the table of runs.
struct Column {
  std::string_view header;
  int width;   ///< characters; 0: all that is left
  bool right;  ///< aligned
  int rank;    ///< columns of the highest rank go first when the screen is narrow
  std::function<std::string(const telemetry::Run&, bool unicode)> cell;
};

/// All of them, in their order.
const std::vector<Column>& columns();

/// The columns that fit, of those that matter most.
std::vector<const Column*> fitting(int width);

/// A line of the table, no wider than `width`.
std::string row_text(const std::vector<const Column*>& chosen, int width,
                     const std::function<std::string(const Column&)>& cell);

}  // namespace cinch::cli
