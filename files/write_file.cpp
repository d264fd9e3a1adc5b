// SPDX-License-Identifier: Apache-2.0
#include "files/write_file.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <exception>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cinch::files {
namespace {

constexpr int most_links = 40;  // as in the kernel
constexpr int most_names = 100;

/// While it lives, this thread gets EPIPE and EFBIG without the signals that come with them.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    sigaddset(&set_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    // A signal that is pending already is not ours to take away.
    for (const int number : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, number) == 1) sigdelset(&set_, number);
    }
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoWriteSignals() {
    const int error = errno;
    const timespec at_once = {};
    while (sigtimedwait(&set_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t set_;
  sigset_t before_;
};

/// Writes all of `text` and closes `file`. @return 0, or errno
int write_and_close(int file, std::string_view text) {
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  // Some file systems report only here that there is no room.
  if (close(file) != 0 && error == 0 && errno != EINTR) error = errno;
  return error;
}

/// @return 0, or errno
int write_through(std::string_view text, const std::string& path) {
  // O_NONBLOCK: a FIFO without a reader is an error, not a reason to wait. O_APPEND: what a
  // redirected /dev/stdout holds already is not overwritten.
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return errno;
  fcntl(file, F_SETFL, O_APPEND);
  return write_and_close(file, text);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash + 1);
}

/// @param before What lies at `path`; null when nothing does. @return 0, or errno
int replace(std::string_view text, const std::string& path, const struct stat* before) {
  static std::atomic<unsigned> next_number{0};
  // A short name, since `path` may have the longest possible; the same folder, since rename() works
  // within one file system.
  const std::string start = folder_of(path) + ".cinch-" + std::to_string(getpid()) + '-';
  std::string temporary;
  int file = -1;
  // In another namespace or on another machine another process may have the same PID.
  for (int i = 0; i < most_names && file < 0; ++i) {
    temporary = start + std::to_string(next_number.fetch_add(1)) + ".tmp";
    file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) break;
  }
  if (file < 0) return errno;
  if (before != nullptr) {
    struct stat made;
    const bool is_known = fstat(file, &made) == 0;
    const bool is_owners =
        is_known && ((made.st_uid == before->st_uid && made.st_gid == before->st_gid) ||
                     fchown(file, before->st_uid, before->st_gid) == 0);
    if (is_owners) fchmod(file, before->st_mode & 0777);
  }
  int error = write_and_close(file, text);
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

/// @return 0, or errno
int write_to(std::string_view text, std::string path) {
  for (int i = 0; i < most_links; ++i) {
    // Links there must not be resolved by readlink: their target may have no name.
    if (path.starts_with("/proc/") || path.starts_with("/dev/fd/")) {
      return write_through(text, path);
    }
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) {
      return errno == ENOENT ? replace(text, path, nullptr) : errno;
    }
    if (S_ISREG(info.st_mode)) return replace(text, path, &info);
    if (S_ISDIR(info.st_mode)) return EISDIR;
    if (!S_ISLNK(info.st_mode)) return write_through(text, path);
    char target[4096];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length < 0) return errno;
    const std::string next(target, static_cast<std::size_t>(length));
    path = next.starts_with('/') ? next : folder_of(path) + next;
  }
  return ELOOP;
}

}  // namespace

std::string write_file(std::string_view text, const std::string& path) noexcept try {
  const NoWriteSignals quiet;
  const int error = write_to(text, path);
  return error == 0 ? "" : "cannot write " + path + ": " + std::strerror(error);
} catch (const std::exception&) {
  return "no memory left";  // short enough for no heap memory
}

}  // namespace cinch::files
