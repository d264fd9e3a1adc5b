// SPDX-License-Identifier: Apache-2.0
// cinch report: shows a report file, compares two, or makes a page of one.

#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>

#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/report/compare.h"
#include "agent/cli/report/render.h"
#include "agent/cli/text.h"
#include "agent/cli/workplace.h"
#include "agent/web/page.h"
#include "files/write_file.h"

namespace cinch::cli {
namespace {

/// @throws std::runtime_error with a message for people
telemetry::Report load(const std::string& file) {
  std::string error;
  auto report = telemetry::from_json(read_file(file), error);
  if (!report) throw std::runtime_error(file + ": " + error);
  return *std::move(report);
}

/// @throws std::runtime_error with a message for people
void write_page(const telemetry::Report& report, const std::string& file) {
  const std::string error = files::write_file(web::report_page(to_json(report)), file);
  if (!error.empty()) throw std::runtime_error(error);
}

}  // namespace

int show_report(const ReportOptions& options) {
  try {
    const Style style{colour_wanted(STDOUT_FILENO)};
    const telemetry::Report report = load(options.file);
    std::string text;
    if (!options.html.empty()) {
      write_page(report, options.html);
    } else if (!options.other.empty()) {
      text = render_comparison(report, options.file, load(options.other), options.other, style);
    } else {
      text = render_report(report, style);
    }
    std::fputs(text.c_str(), stdout);
    return 0;
  } catch (const std::exception& failure) {
    say(failure.what());
    return usage_error;
  }
}

}  // namespace cinch::cli
