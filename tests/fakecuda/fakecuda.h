// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

/// The fake CUDA runtime's own functions, for tests in C, C++ and ctypes.
///
/// Thread-safe. Calls are named as CUDA's functions are ("cudaMalloc", "cuMemMap"). Errors are
/// CUDA's numbers (2: out of memory). docs/fakecuda.md says what the fake represents.
#ifdef __cplusplus
extern "C" {
#endif

// Devices.

/// Sets every device's memory, in bytes. Memory in use stays in use.
void fakecuda_set_memory(size_t bytes);
/// Physical memory of a device that is in use, in bytes.
size_t fakecuda_used(int device);
/// Sets a device attribute (a CUdevice_attribute, or a cudaDeviceAttr) of every device. What it
/// says that they lack, calls refuse where that is represented: memory's handle types and its RDMA
/// flag.
void fakecuda_set_attribute(int attribute, int value);
/// Whether a device has a primary context, which on a GPU takes hundreds of MB.
int fakecuda_has_context(int device);

// Failures.

/// Makes the `nth` use of `call` from now on (1: the next) return `error`. "*" stands for any call
/// that can fail. Several failures may be planned at once.
void fakecuda_fail(const char* call, uint64_t nth, int error);
void fakecuda_stop_failing(void);

// Counters and traces.

/// Number of uses of a call so far. null or "*": of all calls that can fail.
uint64_t fakecuda_calls(const char* call);
/// Times that the host waited for the device so far: synchronizing calls, blocking copies, copies
/// from the device to pageable memory, frees that wait.
uint64_t fakecuda_host_syncs(void);
/// The same for one call ("cudaStreamSynchronize").
uint64_t fakecuda_host_syncs_of(const char* call);
/// Uses so far of calls in which CUDA may synchronize though that is not what they are for, whether
/// or not the host waited (docs/fakecuda.md lists them).
uint64_t fakecuda_implicit_syncs(void);
uint64_t fakecuda_implicit_syncs_of(const char* call);
/// Kernel launches so far, and how many of them did nothing for lack of a host implementation.
uint64_t fakecuda_launches(void);
uint64_t fakecuda_launches_skipped(void);
/// Faults so far: calls that the fake does not represent, and work that used inaccessible memory.
uint64_t fakecuda_faults(void);
/// Writes every call to this file from now on. "stderr": to stderr; null: stops.
void fakecuda_trace(const char* path);

// When work runs.

/// Sets when work runs. "eager": as soon as the work that it depends on is done. "lazy": when
/// somebody waits for it. "random:SEED": at random times, the first item of a random stream. First
/// runs all work that is enqueued already.
/// @return 0, or -1 when `schedule` is none of these
int fakecuda_schedule(const char* schedule);
/// Sets for how many queries an event reports "not ready" after the work before it is done.
void fakecuda_set_event_delay(int queries);
/// Stops running the work of a stream until somebody waits for it or fakecuda_release is called.
void fakecuda_hold(void* stream);
/// Ends fakecuda_hold and runs the stream's work.
void fakecuda_release(void* stream);
/// Runs up to `items` items of `stream`, and the work that they wait for. @return how many ran
size_t fakecuda_step(void* stream, size_t items);
/// Number of enqueued items of all streams that have not run.
size_t fakecuda_pending(void);

// Between devices.

/// Sets whether devices report that they can access each other's memory; at the start they don't.
void fakecuda_set_peers(int on);

// Poison.

/// Sets whether fresh device memory is filled with poison; at the start FAKECUDA_POISON decides.
void fakecuda_set_poison(int on);
/// Fills memory with bytes that are NaN in every floating-point type, at once.
void fakecuda_poison(void* memory, size_t bytes);
/// The same as work of `stream` (null: the default stream of `device`, which need not be the
/// current one), for an allocator that frees memory used on `stream`.
void fakecuda_poison_async(void* memory, size_t bytes, int device, void* stream);

// For code that adds work to streams: the executor and host implementations of kernels.

/// Memory that an item of work uses.
struct fakecuda_range {
  const void* memory;
  size_t bytes;
};
/// Enqueues `run(context)` as work of a stream, followed by `destroy(context)` whether or not it
/// ran. If device memory among `ranges` is no longer accessible, the work does not run and counts
/// as a fault. @pre `what` lives forever; `run` does not call CUDA
void fakecuda_enqueue(void* stream, const char* what, void (*run)(void*), void (*destroy)(void*),
                      void* context, const struct fakecuda_range* ranges, size_t range_count);
/// Whether new work of this stream would run at once.
int fakecuda_is_eager(void* stream);
/// Whether a graph records the work of this stream.
int fakecuda_is_capturing(void* stream);
/// Runs all work of a stream and the work that it waits for. Not counted as a host synchronization.
void fakecuda_finish(void* stream);

/// Reports an error in an item of work. Counts as a fault, and every later call returns `error`.
void fakecuda_break(const char* what, int error);

/// A kernel launch. `name` is the kernel's mangled name. A fakecuda_kernels function copies the
/// arguments and sets the last three members for fakecuda_enqueue; it returns 0 if it doesn't know
/// the kernel.
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
