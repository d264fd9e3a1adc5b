// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/telemetry/reader.h"

namespace cinch::cli {

/// A column of the table of runs.
struct Column {
  std::string_view header;
  int width;   ///< characters; 0: all remaining ones
  bool right;  ///< aligned to the right
  int rank;    ///< a narrow screen drops columns of the highest rank first
  std::function<std::string(const telemetry::Run&, bool unicode)> cell;
};

/// All columns, in order.
const std::vector<Column>& columns();

/// The most important columns that fit into `width` characters, in order.
std::vector<const Column*> fitting(int width);

/// A line of the table, no wider than `width`.
std::string row_text(const std::vector<const Column*>& chosen, int width,
                     const std::function<std::string(const Column&)>& cell);

}  // namespace cinch::cli
