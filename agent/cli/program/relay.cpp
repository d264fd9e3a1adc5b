// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/program/relay.h"

#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "agent/telemetry/quiet_thread.h"

namespace cinch::cli {

std::unique_ptr<Relay> Relay::open(Progress& progress) {
  if (!progress.active()) return nullptr;
  winsize size{};
  const bool sized = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
  int master = -1;
  int slave = -1;
  if (openpty(&master, &slave, nullptr, nullptr, sized ? &size : nullptr) != 0) return nullptr;
  fcntl(master, F_SETFD, FD_CLOEXEC);
  fcntl(slave, F_SETFD, FD_CLOEXEC);
  // No output processing: our own terminal converts line ends.
  termios modes{};
  if (tcgetattr(slave, &modes) == 0) {
    modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    tcsetattr(slave, TCSANOW, &modes);
  }
  std::unique_ptr<Relay> relay(new Relay(progress, master, slave));
  // Blocks all signals: the thread that waits for the program takes them.
  if (telemetry::start_quiet_thread(relay->thread_, run, relay.get(), "cinch-relay")) return relay;
  return nullptr;
}

Relay::~Relay() {
  if (thread_ != pthread_t{}) {
    ending_.store(true, std::memory_order_release);
    pthread_join(thread_, nullptr);
  }
  close(slave_);
  close(master_);
}

void* Relay::run(void* self) {
  static_cast<Relay*>(self)->loop();
  return nullptr;
}

void Relay::loop() {
  char bytes[4096];
  for (;;) {
    const bool last = ending_.load(std::memory_order_acquire);
    pollfd ready = {master_, POLLIN, 0};
    const int count = poll(&ready, 1, last ? 0 : 50);
    if (count > 0 && (ready.revents & POLLIN) != 0) {
      const ssize_t got = read(master_, bytes, sizeof bytes);
      if (got > 0) progress_.pass({bytes, static_cast<std::size_t>(got)});
      if (got > 0 || (got < 0 && errno == EINTR)) continue;
    }
    if (last) return;
  }
}

}  // namespace cinch::cli
