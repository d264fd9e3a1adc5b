// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/plain.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "agent/cli/text.h"
#include "agent/cli/watch/columns.h"
#include "agent/cli/watch/details.h"
#include "agent/cli/watch/line.h"

namespace cinch::cli {
namespace {

constexpr int unlimited = std::numeric_limits<int>::max();

}  // namespace

std::string plain_text(const std::vector<telemetry::Run>& runs, bool with_details) {
  std::string text;
  if (runs.empty()) return "no program of yours is training under Cinch\n";
  if (!with_details) {
    std::vector<std::string> header = {"job"};
    for (const Column& column : columns()) {
      if (column.width == spark_width) continue;
      header.push_back((column.right ? ">" : "") + std::string(column.header));
      std::ranges::transform(header.back(), header.back().begin(),
                             [](unsigned char c) { return std::tolower(c); });
    }
    Table table(header);
    for (const telemetry::Run& run : runs) {
      std::vector<std::string> cells = {telemetry::job_of(run)};
      for (const Column& column : columns()) {
        if (column.width != spark_width) cells.push_back(fit(column.cell(run, false), unlimited));
      }
      table.add(std::move(cells));
    }
    return table.render("");
  }
  for (const telemetry::Run& run : runs) {
    for (const bool per_codec : {false, true}) {
      const auto lines = details_of(run, 200, false, per_codec);
      // Of the details by codec only the table differs from those by operator.
      auto line = lines.begin();
      if (per_codec) {
        line = std::ranges::find_if(
            lines, [](const ScreenLine& l) { return l.text.starts_with("by codec"); });
        if (line != lines.end()) text += '\n';
      }
      for (; line != lines.end(); ++line) {
        if (per_codec && line->text.empty()) break;
        text += line->text + '\n';
      }
    }
  }
  return text;
}

}  // namespace cinch::cli
