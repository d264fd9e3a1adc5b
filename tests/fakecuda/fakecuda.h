// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

/// What tests ask of the fake CUDA runtime beyond CUDA's own functions: for C, C++ and ctypes.
///
/// Thread-safe. Names of calls are those of CUDA's functions ("cudaMalloc", "cuMemMap"). Errors are
/// CUDA's numbers (2: out of memory). docs/fakecuda.md tells what is represented and what is not.
#ifdef __cplusplus
extern "C" {
#endif

// Devices.

/// Sets every device's memory; what is in use stays so. Bytes.
void fakecuda_set_memory(size_t bytes);
/// Physical memory of a device in use. Bytes.
size_t fakecuda_used(int device);

// Failures.

/// The `nth` use of `call` from now on (1: the next) returns `error`. "*" stands for any call that
/// can fail. Several may be planned at once.
void fakecuda_fail(const char* call, uint64_t nth, int error);
void fakecuda_stop_failing(void);

// What has been going on.

/// Uses of a call so far; null or "*": of all calls that can fail.
uint64_t fakecuda_calls(const char* call);
/// Times that the host waited for the device so far: synchronizing calls, blocking copies, copies
/// from the device to pageable memory, frees that wait.
uint64_t fakecuda_host_syncs(void);
/// The same for one call ("cudaStreamSynchronize").
uint64_t fakecuda_host_syncs_of(const char* call);
/// Kernel launches so far, and those among them that had no host implementation and did nothing.
uint64_t fakecuda_launches(void);
uint64_t fakecuda_launches_skipped(void);
/// Calls that are not represented, and work that used memory it must not, so far.
uint64_t fakecuda_faults(void);
/// Writes every call to this file from now on ("stderr" and null as one would think).
void fakecuda_trace(const char* path);

// When work is done.

/// "eager": at once, as soon as what it waits for is done. "lazy": when somebody waits for it.
/// "random:SEED": the heads of random streams at random times. What has been enqueued before is
/// done first.
/// @return 0, or -1 when that is none of these
int fakecuda_schedule(const char* schedule);
/// Queries for which an event stays not ready after what it follows is done.
void fakecuda_set_event_delay(int queries);
/// Keeps the work of a stream from now on until somebody waits for it or it is released.
void fakecuda_hold(void* stream);
/// Ends fakecuda_hold and does the work.
void fakecuda_release(void* stream);
/// Does up to `items` of what `stream` has to do, and what they wait for. @return how many were
/// done
size_t fakecuda_step(void* stream, size_t items);
/// Pieces of work that were enqueued and are not done, of all streams.
size_t fakecuda_pending(void);

// Between devices.

/// Whether devices say from now on that they can access each other's memory; not so at the start.
void fakecuda_set_peers(int on);

// Poison.

/// Whether fresh device memory is filled from now on (FAKECUDA_POISON at the start).
void fakecuda_set_poison(int on);
/// Fills memory with bytes that are NaN in every floating-point type, at once.
void fakecuda_poison(void* memory, size_t bytes);
/// The same as work of a stream: what an allocator does when memory of `stream` becomes free.
void fakecuda_poison_async(void* memory, size_t bytes, void* stream);

// For what adds work of its own to streams: the executor, host implementations of kernels.

/// Memory that a piece of work uses.
struct fakecuda_range {
  const void* memory;
  size_t bytes;
};
/// Enqueues `run(context)`, followed by `destroy(context)` whether or not it ran, as work of a
/// stream; `what` is a string that lasts. The work must not call CUDA. It is not run, and counts as
/// a fault, when the device memory among `ranges` is not accessible any more.
void fakecuda_enqueue(void* stream, const char* what, void (*run)(void*), void (*destroy)(void*),
                      void* context, const struct fakecuda_range* ranges, size_t range_count);
/// Whether work of this stream would be done at once.
int fakecuda_is_eager(void* stream);
/// Whether a graph records the work of this stream.
int fakecuda_is_capturing(void* stream);
/// Does all that a stream has to do and what that waits for: not a host synchronization that
/// counts.
void fakecuda_finish(void* stream);

/// Says what went wrong in a piece of work; it is a fault, and every later call returns `error`.
void fakecuda_break(const char* what, int error);

/// Finds a host implementation of kernels. `name` is the kernel's mangled name. Copies the
/// arguments and gives what fakecuda_enqueue takes; 0 when it doesn't know the kernel.
struct fakecuda_launch {
  const char* name;
  unsigned grid[3];
  unsigned block[3];
  size_t shared_bytes;
  void** arguments;
  void (*run)(void*);
  void (*destroy)(void*);
  void* context;
};
typedef int (*fakecuda_kernels)(struct fakecuda_launch* launch);
void fakecuda_add_kernels(fakecuda_kernels find);

#ifdef __cplusplus
}
#endif
