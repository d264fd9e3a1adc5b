// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/sharing/descriptors.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>

#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/telemetry/quiet_thread.h"

namespace cinch::allocator {
namespace {

// Old headers lack them; kernels since 5.6 have both.
constexpr long pidfd_open_call = 434;
constexpr long pidfd_getfd_call = 438;
constexpr timeval patience{.tv_sec = 5, .tv_usec = 0};

class Owned {
 public:
  explicit Owned(int descriptor) : descriptor_(descriptor) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  int release() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    return descriptor;
  }

 private:
  int descriptor_;
};

// In the abstract namespace: nothing is left behind when the process ends.
socklen_t name_of(std::int32_t process, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                   "cinch-cuda-ipc-%d", static_cast<int>(process));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) +
         static_cast<socklen_t>(length);
}

bool peer_is(int socket, std::int32_t process) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  // Anybody may bind the name; only the process itself has its PID.
  return peer.uid == geteuid() && (process == 0 || peer.pid == process);
}

void be_patient(int socket) {
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

union Control {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// Sends one byte, 1 with a descriptor or 0 without.
bool answer(int socket, int descriptor) {
  char good = descriptor >= 0 ? 1 : 0;
  iovec data{.iov_base = &good, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  Control control{};
  if (descriptor >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive(int socket) {
  char good = 0;
  iovec data{.iov_base = &good, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  Control control{};
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (good != 1 || header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

std::atomic<bool (*)(std::int32_t)> permitted{nullptr};

void* serve(void* socket) {
  const int listening = static_cast<int>(reinterpret_cast<std::intptr_t>(socket));
  for (;;) {
    const Owned client(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return nullptr;
      usleep(100'000);  // until the program has descriptors again
      continue;
    }
    if (!peer_is(client.get(), 0)) continue;
    be_patient(client.get());
    std::int32_t wanted = -1;
    while (recv(client.get(), &wanted, sizeof wanted, MSG_WAITALL) ==
           static_cast<ssize_t>(sizeof wanted)) {
      if (!answer(client.get(), permitted.load()(wanted) ? wanted : -1)) break;
    }
  }
}

bool begin_serving() {
  Owned listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  const socklen_t length = name_of(getpid(), address);
  if (!listening || bind(listening.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listening.get(), 64) != 0) {
    return false;
  }
  pthread_t thread{};
  auto* const socket_number = reinterpret_cast<void*>(std::intptr_t{listening.get()});
  if (!telemetry::start_quiet_thread(thread, serve, socket_number, "cinch-ipc")) return false;
  pthread_detach(thread);
  listening.release();  // now the thread's
  return true;
}

void note(std::string& fault, const char* what) {
  if (!fault.empty()) fault += "; ";
  fault += what;
  fault += ": ";
  fault += std::strerror(errno);
}

}  // namespace

bool serve_descriptors(bool (*may)(std::int32_t descriptor)) {
  static std::mutex mutex;
  static pid_t serving = 0;  // a PID: a forked child has no thread
  static bool good = false;
  const std::lock_guard lock(mutex);
  if (serving == getpid()) return good;
  permitted = may;
  serving = getpid();
  good = begin_serving();
  return good;
}

int fetch_by_pidfd(std::int32_t process, std::int32_t descriptor, std::string& fault) {
  const Owned pidfd(static_cast<int>(syscall(pidfd_open_call, process, 0)));
  if (!pidfd) {
    note(fault, "pidfd_open");
    return -1;
  }
  const int fetched = static_cast<int>(syscall(pidfd_getfd_call, pidfd.get(), descriptor, 0));
  if (fetched < 0) note(fault, "pidfd_getfd");
  return fetched;
}

int fetch_by_socket(std::int32_t process, std::int32_t descriptor, std::string& fault) {
  const Owned server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  const socklen_t length = name_of(process, address);
  if (!server || connect(server.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    note(fault, "the sender's socket");
    return -1;
  }
  errno = EACCES;
  int fetched = -1;
  if (peer_is(server.get(), process)) {
    be_patient(server.get());
    if (send(server.get(), &descriptor, sizeof descriptor, MSG_NOSIGNAL) ==
        static_cast<ssize_t>(sizeof descriptor)) {
      errno = EBADF;
      fetched = receive(server.get());
    }
  }
  if (fetched < 0) note(fault, "the sender's socket");
  return fetched;
}

int fetch_descriptor(std::int32_t process, std::int32_t descriptor, std::string& fault) {
  const int fetched = fetch_by_pidfd(process, descriptor, fault);
  return fetched >= 0 ? fetched : fetch_by_socket(process, descriptor, fault);
}

}  // namespace cinch::allocator
