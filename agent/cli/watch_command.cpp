// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstring>

#include <langinfo.h>
#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/watch/json.h"
#include "agent/cli/watch/plain.h"
#include "agent/cli/watch/screen.h"
#include "agent/cli/watch/terminal.h"
#include "agent/telemetry/reader.h"

namespace cinch::cli {

int watch(const WatchOptions& options) {
  const auto read = [&options] {
    auto runs = telemetry::read_runs(telemetry::segment_directory());
    if (options.pid) {
      std::erase_if(runs, [&](const auto& run) { return run.process.pid != *options.pid; });
    }
    return runs;
  };
  if (options.once || options.json || isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0) {
    const auto runs = read();
    if (runs.empty() && options.pid) {
      std::fprintf(stderr, "cinch: process %llu is not training under Cinch, or is not yours\n",
                   static_cast<unsigned long long>(*options.pid));
      return 1;
    }
    const std::string text =
        options.json ? runs_json(runs) + '\n' : plain_text(runs, options.pid.has_value());
    return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
  }
  std::setlocale(LC_CTYPE, "");
  Screen screen({std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0, options.pid});
  return show_on_terminal(screen, options.interval, read);
}

}  // namespace cinch::cli
