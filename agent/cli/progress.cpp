// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/progress.h"

#include <cerrno>
#include <cstdlib>

#include <sys/ioctl.h>

#include "agent/cli/text.h"
#include "agent/telemetry/process.h"

namespace cinch::cli {
namespace {

double now() {
  return static_cast<double>(telemetry::monotonic_now()) * 1e-9;
}

bool can_draw(int file) {
  const char* terminal = std::getenv("TERM");
  return isatty(file) == 1 && terminal != nullptr && *terminal != '\0' &&
         std::string_view(terminal) != "dumb";
}

std::size_t columns(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(int file)
    : file_(file), active_(can_draw(file)), colour_(colour_wanted(file)), began_(now()) {}

Progress::~Progress() {
  clear();
}

void Progress::show(std::string_view text) {
  if (!active_) return;
  const std::lock_guard lock(mutex_);
  // The last column stays free: some terminals wrap when it is written to.
  const std::string whole = printable(text);
  std::string line(first_characters(whole, columns(file_) - 1));
  if (!at_line_start_ || line == drawn_) return;
  write_all("\r\033[K" + (colour_ ? "\033[2m" + line + "\033[0m" : line));
  drawn_ = std::move(line);
}

void Progress::show_with_time(std::string_view text) {
  show(std::string(text) + " (" + std::to_string(static_cast<long>(now() - began_)) + " s)");
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  clear_locked();
}

void Progress::pass(std::string_view output) {
  if (output.empty()) return;
  const std::lock_guard lock(mutex_);
  clear_locked();
  write_all(output);
  at_line_start_ = output.back() == '\n';
}

// pre: mutex_ is held
void Progress::clear_locked() {
  if (drawn_.empty()) return;
  write_all("\r\033[K");
  drawn_.clear();
}

void Progress::write_all(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the terminal is gone
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace cinch::cli
