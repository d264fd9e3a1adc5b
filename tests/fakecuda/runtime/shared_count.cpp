// SPDX-License-Identifier: Apache-2.0
#include "shared_count.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "say.h"

namespace fakecuda {

SharedCount::SharedCount(const char* path) {
  constexpr std::size_t bytes = most_processes * sizeof(Process);
  file_ = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) {
    fault("FAKECUDA_SHARED=%s can't be made", path);
    return;
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) {
    fault("FAKECUDA_SHARED=%s can't be mapped", path);
    return;
  }
  processes_ = static_cast<Process*>(memory);
}

std::size_t SharedCount::lock_and_sum(int device) {
  if (processes_ == nullptr) return 0;
  while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {
  }
  std::size_t sum = 0;
  for (Process* p = processes_; p != processes_ + most_processes; ++p) {
    if (p->pid == 0 || p->pid == getpid()) continue;
    if (kill(static_cast<pid_t>(p->pid), 0) != 0 && errno == ESRCH) {
      *p = {};  // the driver frees an ended process's memory
      continue;
    }
    sum += p->bytes[device];
  }
  return sum;
}

// pre: locked
SharedCount::Process* SharedCount::own() {
  Process* free = nullptr;
  for (Process* p = processes_; p != processes_ + most_processes; ++p) {
    if (p->pid == getpid()) return p;
    if (p->pid == 0 && free == nullptr) free = p;
  }
  if (free != nullptr) free->pid = getpid();
  return free;
}

void SharedCount::set_and_unlock(int device, std::size_t bytes) {
  if (processes_ == nullptr) return;
  if (Process* p = own(); p != nullptr) {
    p->bytes[device] = bytes;
  } else {
    fault("FAKECUDA_SHARED: more than %d processes", most_processes);
  }
  flock(file_, LOCK_UN);
}

SharedCount* shared_count() {
  static SharedCount* count =
      settings().shared == nullptr ? nullptr : new SharedCount(settings().shared);
  return count;
}

}  // namespace fakecuda
