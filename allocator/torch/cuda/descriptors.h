// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cinch::allocator {

/// File descriptors from process to process, of one user. Linux.
///
/// PyTorch's receivers take them out of the sender by pidfd_getfd, which needs the right to trace
/// it: a container's usual rules, and Yama's for anyone but a parent, refuse that. So a sender also
/// answers on a socket, and who is refused asks there.

/// Hands out this process's descriptors, if `may(descriptor)` says so, to processes of the same
/// user: a thread of its own, with all signals blocked, begun at the first call and in each process
/// anew after a fork; it ends with the process. False when that is not possible: receivers have
/// pidfd_getfd alone. Thread-safe; `may` too has to be.
bool serve_descriptors(bool (*may)(std::int32_t descriptor));

/// A duplicate (close-on-exec) of another process's descriptor; -1, and why, when there is none to
/// be had.
int fetch_descriptor(std::int32_t process, std::int32_t descriptor, std::string& fault);

/// The two ways, one by one; for tests.
int fetch_by_pidfd(std::int32_t process, std::int32_t descriptor, std::string& fault);
int fetch_by_socket(std::int32_t process, std::int32_t descriptor, std::string& fault);

}  // namespace cinch::allocator
