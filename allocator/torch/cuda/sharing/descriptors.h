// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cinch::allocator {

/// Sends file descriptors between processes of one user. Linux.
///
/// PyTorch's receivers take them out of the sender by pidfd_getfd, which needs the right to trace
/// it. Many containers refuse that, and so does Yama for anyone but a parent. So a sender also
/// answers on a socket, which receivers of Cinch try next.

/// Starts a thread that sends this process's descriptors to processes of the same user, where
/// `may(descriptor)` allows it. The thread starts at the first call in each process, also after a
/// fork; it blocks all signals, and ends with the process. False when it can't start: receivers
/// then have pidfd_getfd alone. Thread-safe; `may` has to be, too.
bool serve_descriptors(bool (*may)(std::int32_t descriptor));

/// A duplicate (close-on-exec) of another process's descriptor; -1, and the reason in `fault`, when
/// there is none to be had.
int fetch_descriptor(std::int32_t process, std::int32_t descriptor, std::string& fault);

/// Each of the two ways alone; for tests.
int fetch_by_pidfd(std::int32_t process, std::int32_t descriptor, std::string& fault);
int fetch_by_socket(std::int32_t process, std::int32_t descriptor, std::string& fault);

}  // namespace cinch::allocator
