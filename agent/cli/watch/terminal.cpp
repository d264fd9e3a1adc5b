// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/terminal.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#define NCURSES_NOMACROS
#include <curses.h>
#include <unistd.h>

#include "agent/cli/commands.h"
#include "agent/cli/text.h"

namespace cinch::cli {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t ending = 0;

// Sets up the terminal for curses; the destructor restores it.
class Session {
 public:
  explicit Session(SCREEN* terminal) : terminal_(terminal) {
    set_term(terminal_);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    if (colour_wanted(STDOUT_FILENO) && has_colors()) {
      start_color();
      use_default_colors();
      init_pair(1, COLOR_RED, -1);
      coloured_ = true;
    }
  }
  ~Session() {
    endwin();
    delscreen(terminal_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void show(const std::vector<ScreenLine>& lines) const {
    erase();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const attr_t look = attributes(lines[i].look);
      attr_set(look, coloured_ && lines[i].look == ScreenLine::Look::bad ? 1 : 0, nullptr);
      mvaddstr(static_cast<int>(i), 0, lines[i].text.c_str());
      const bool bar = lines[i].look == ScreenLine::Look::selected;
      if (bar) hline(' ' | A_REVERSE, std::max(0, COLS - getcurx(stdscr)));
    }
    attr_set(A_NORMAL, 0, nullptr);
    refresh();
  }

 private:
  static attr_t attributes(ScreenLine::Look look) {
    switch (look) {
      case ScreenLine::Look::title:
        return A_BOLD;
      case ScreenLine::Look::header:
        return A_UNDERLINE;
      case ScreenLine::Look::selected:
        return A_REVERSE;
      case ScreenLine::Look::dim:
        return A_DIM;
      case ScreenLine::Look::bad:
        return A_BOLD;
      case ScreenLine::Look::plain:
        break;
    }
    return A_NORMAL;
  }

  SCREEN* const terminal_;
  bool coloured_ = false;
};

int translated(int key) {
  switch (key) {
    case KEY_UP:
      return Screen::up;
    case KEY_DOWN:
      return Screen::down;
    case KEY_PPAGE:
      return Screen::page_up;
    case KEY_NPAGE:
      return Screen::page_down;
    case KEY_HOME:
      return Screen::home;
    case KEY_END:
      return Screen::end;
    case KEY_ENTER:
    case '\r':
    case '\n':
      return Screen::enter;
    case 27:
      return Screen::escape;
    case KEY_BACKSPACE:
    case 127:
    case 8:
      return Screen::backspace;
    default:
      return key < 256 ? key : -1;
  }
}

}  // namespace

int show_on_terminal(Screen& screen, double interval,
                     const std::function<std::vector<telemetry::Run>()>& read) {
  // Milliseconds after which Escape is a key by itself: the sequences of other keys come at once.
  setenv("ESCDELAY", "50", 0);
  SCREEN* terminal = newterm(nullptr, stdout, stdin);
  if (terminal == nullptr) {
    const char* name = std::getenv("TERM");
    std::fprintf(stderr,
                 "cinch: the terminal %s is not known: set TERM, or use cinch watch --once\n",
                 name == nullptr ? "(TERM is not set)" : name);
    return usage_error;
  }
  const Session session(terminal);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    action.sa_handler = [](int) { ending = 1; };
    sigaction(number, &action, nullptr);
  }
  const auto period =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval));
  Clock::time_point due = Clock::now();
  while (ending == 0) {
    if (Clock::now() >= due) {
      screen.update(read());
      due = Clock::now() + period;
    }
    session.show(screen.frame(COLS, LINES));
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now());
    wtimeout(stdscr, static_cast<int>(std::clamp<long long>(wait.count(), 0, 60'000)));
    const int key = wgetch(stdscr);
    // A resize comes as a key, with COLS and LINES already updated. When the terminal is gone,
    // wgetch fails at once, and the loop would spin.
    if (key == ERR && isatty(STDIN_FILENO) == 0) break;
    if (key != ERR && key != KEY_RESIZE && !screen.press(translated(key))) break;
  }
  return 0;
}

}  // namespace cinch::cli
