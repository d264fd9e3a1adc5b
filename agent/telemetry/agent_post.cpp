// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/agent_post.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/telemetry/descriptor.h"
#include "agent/telemetry/futex.h"

namespace cinch::telemetry {
namespace {

// For a lock of the open file description (F_OFD_…): closing another descriptor does not drop it,
// and it ends with the process.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

AgentBlock* map(int file) {
  void* memory = mmap(nullptr, sizeof(AgentBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<AgentBlock*>(memory);
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

std::string agent_path(const std::string& directory) {
  return directory + "/cinch-" + std::to_string(geteuid()) + ".agent";
}

std::unique_ptr<AgentPost> AgentPost::take(const std::string& directory, std::string& error) {
  std::string path = agent_path(directory);
  error.clear();
  const auto failed = [&](int number) {
    error = path + ": " + strerror(number);
    return nullptr;
  };
  for (;;) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return failed(errno);
    struct stat info;
    if (fstat(file, &info) != 0 || !is_private_file(info)) {
      close(file);
      error = path + " is no private file of this user's";
      return nullptr;
    }
    struct flock lock = whole_file();
    if (fcntl(file, F_OFD_SETLK, &lock) != 0) {
      const int number = errno;
      close(file);
      return number == EAGAIN || number == EACCES ? nullptr : failed(number);
    }
    // The previous agent may have deleted the file between our open and our lock.
    struct stat named;
    if (lstat(path.c_str(), &named) != 0 || !is_same_file(info, named)) {
      close(file);
      continue;
    }
    const int number = posix_fallocate(file, 0, sizeof(AgentBlock));
    AgentBlock* block = number == 0 ? map(file) : nullptr;
    if (block == nullptr) {
      unlink(path.c_str());
      close(file);
      return failed(number == 0 ? ENOMEM : number);
    }
    block->magic.store(AgentBlock::magic_value, std::memory_order_relaxed);
    block->version.store(AgentBlock::version_value, std::memory_order_relaxed);
    block->ready.store(1, std::memory_order_release);
    return std::unique_ptr<AgentPost>(new AgentPost(block, file, std::move(path)));
  }
}

AgentPost::~AgentPost() {
  unlink(path_.c_str());  // before unlocking: the name can't belong to another agent yet
  munmap(block_, sizeof(AgentBlock));
  close(file_);
}

void AgentPost::wait(std::uint64_t seen, std::uint64_t nanoseconds) noexcept {
  sleep_on(block_->bell, seen, nanoseconds);
}

void AgentPost::ring() noexcept {
  advance(block_->bell);
}

AgentBell::AgentBell(const std::string& directory) {
  const std::string path = agent_path(directory);
  file_ = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (file_ < 0 || fstat(file_, &info) != 0 || !is_private_file(info) ||
      info.st_size != sizeof(AgentBlock)) {
    return;
  }
  block_ = map(file_);
}

AgentBell::~AgentBell() {
  if (block_ != nullptr) munmap(block_, sizeof(AgentBlock));
  if (file_ >= 0) close(file_);
}

bool AgentBell::alive() const noexcept {
  if (block_ == nullptr || !is_ready(*block_)) return false;
  struct flock lock = whole_file();
  return fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void AgentBell::ring() noexcept {
  advance(block_->bell);
}

}  // namespace cinch::telemetry
