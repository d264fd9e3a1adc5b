// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/shared_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cinch::telemetry {
namespace {

std::string text_of(const char* what, const std::string& path, int error) {
  return std::string(what) + ' ' + path + ": " + strerror(error);
}

}  // namespace

void* make_shared_file(const std::string& path, std::size_t bytes, std::string& error,
                       void (*step)()) {
  const auto took_step = [step] {
    if (step != nullptr) step();
  };
  // Growing a file beyond this limit would raise SIGXFSZ.
  rlimit largest;
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < bytes) {
    error = text_of("no room for", path, EFBIG);
    return nullptr;
  }
  constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int file = open(path.c_str(), flags, 0600);
  if (file < 0 && errno == EEXIST) {
    // This process made the file before it called exec.
    unlink(path.c_str());
    file = open(path.c_str(), flags, 0600);
  }
  if (file < 0) {
    error = text_of("cannot make", path, errno);
    return nullptr;
  }
  took_step();
  // ftruncate alone would not allocate: touching a page without memory raises SIGBUS.
  int failed = 0;
  do {
    failed = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  } while (failed == EINTR);
  took_step();
  void* memory = MAP_FAILED;
  if (failed == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) failed = errno;
  }
  close(file);
  if (failed != 0) {
    unlink(path.c_str());
    error = text_of("no room for", path, failed);
    return nullptr;
  }
  took_step();
  return memory;
}

}  // namespace cinch::telemetry
