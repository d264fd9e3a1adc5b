// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <type_traits>

#include "codecs/cuda/library/loading.h"

/// A stand-in for CUDA that runs kernels on the host: every thread of a block is a fiber, and
/// __syncthreads and warp intrinsics switch between them. It checks logic, not speed. It aborts
/// with a message if not all lanes of a warp intrinsic's mask arrive, and AddressSanitizer finds
/// accesses out of bounds of shared and global memory. `set_schedule` shuffles the order in which
/// threads run, so that a missing barrier shows as a wrong result.
///
/// Blocks run one after another on the calling thread, or at the same time on several threads of
/// the host (`set_block_threads`), with shared memory for each. Memory is then ordered as the
/// host's processor orders it, at least as strongly as a GPU would.

#ifdef CINCH_KERNELS_BY_NAME
// tests/fakecuda finds kernels by name, so each must stay a function of its own.
#include "kernels/by_name.h"
#define __global__ __attribute__((used, noinline))
#else
#define __global__
#endif
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static thread_local

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace cinch::cuda_on_host {

struct Identity {
  dim3 thread, block, block_size, grid_size;
};
inline thread_local Identity identity;

/// Runs `kernel` for every thread of every block.
void run(unsigned blocks, unsigned threads, std::size_t shared_bytes,
         const std::function<void()>& kernel);

/// Sets on how many threads of the host blocks run from now on. Above 1 they start in a random
/// order and give way at random atomics, fences and warp operations. Each that has started goes on,
/// as on a GPU. The seeds decide orders, the host what happens at the same time.
/// $CUDA_ON_HOST_BLOCK_THREADS is the number at the start; else it is 1.
void set_block_threads(unsigned threads);

/// A place where other blocks' threads may come first.
void may_yield();

/// Sets the order of a block's threads from now on. 0: in order; else the seed of a shuffle.
void set_schedule(std::uint64_t seed);

/// The running block's dynamic shared memory.
std::byte* dynamic_shared();

void block_barrier();

/// The kernels that were loaded, and those that were launched, so far, and the most threads of one
/// launch.
struct Kernels {
  std::set<const void*> loaded, launched;
  std::uint64_t most_threads = 0;
};
Kernels& kernels();

/// Result of `exchange`, which waits for the lanes of `mask`: the value of lane `from` (the
/// caller's own if `from` is not in the mask), and a bit for each lane whose value is not 0.
struct Exchanged {
  std::uint64_t value;
  std::uint32_t ballot;
};
Exchanged exchange(std::uint32_t mask, std::uint64_t value, unsigned from);

template <typename T>
T shuffle(std::uint32_t mask, T value, unsigned from) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, from).value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cinch::cuda_on_host

#define threadIdx (::cinch::cuda_on_host::identity.thread)
#define blockIdx (::cinch::cuda_on_host::identity.block)
#define blockDim (::cinch::cuda_on_host::identity.block_size)
#define gridDim (::cinch::cuda_on_host::identity.grid_size)

inline void __syncthreads() {
  cinch::cuda_on_host::block_barrier();
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
  cinch::cuda_on_host::exchange(mask, 0, 0);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return cinch::cuda_on_host::exchange(mask, predicate != 0, 0).ballot;
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return cinch::cuda_on_host::shuffle(mask, value, static_cast<unsigned>(lane) % 32);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return cinch::cuda_on_host::shuffle(mask, value,
                                      (threadIdx.x % 32) ^ static_cast<unsigned>(lanes));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  const unsigned lane = threadIdx.x % 32;
  return cinch::cuda_on_host::shuffle(mask, value, lane >= delta ? lane - delta : lane);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  const unsigned lane = threadIdx.x % 32;
  return cinch::cuda_on_host::shuffle(mask, value, lane + delta < 32 ? lane + delta : lane);
}

inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  for (int step = 16; step > 0; step /= 2) {
    value = std::min(value, __shfl_xor_sync(mask, value, step));
  }
  return value;
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return ~__reduce_min_sync(mask, ~value);
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step);
  return value;
}

inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  cinch::cuda_on_host::may_yield();
}
inline void __threadfence_system() {
  __threadfence();
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1U) << (31 - i);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}

namespace cinch::cuda_on_host {
/// Replaces `*at` by change(*at), whatever other blocks do. @return what it was
template <typename T, typename Change>
T atomically(T* at, const Change& change) {
  may_yield();
  const std::atomic_ref<T> shared(*at);
  T old = shared.load(std::memory_order_relaxed);
  while (!shared.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return old;
}
}  // namespace cinch::cuda_on_host

template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return cinch::cuda_on_host::atomically(at, [=](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return cinch::cuda_on_host::atomically(at, [=](T old) { return std::min(old, value); });
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return cinch::cuda_on_host::atomically(at, [=](T old) { return std::max(old, value); });
}
template <typename T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return cinch::cuda_on_host::atomically(at, [=](T old) { return static_cast<T>(old | value); });
}
template <typename T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return cinch::cuda_on_host::atomically(at, [=](T) { return value; });
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return cinch::cuda_on_host::atomically(at, [=](T old) { return old == expected ? value : old; });
}

// The runtime functions that codecs and their tests call. All work is done when a call returns.

struct CUstream_st;
using cudaStream_t = CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrMultiProcessorCount };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(memory, value, bytes);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}
inline cudaError_t cudaPeekAtLastError() {
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 20 * 1024 : 4;
  return cudaSuccess;
}
template <typename F>
cudaError_t cudaFuncSetAttribute(F*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

#define CINCH_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(::cinch::cuda_on_host::dynamic_shared())

namespace cinch::codecs::cuda {

template <typename... Parameters, typename... Arguments>
bool launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            std::size_t shared_bytes, cudaStream_t, const Arguments&... arguments) noexcept {
  auto& known = cinch::cuda_on_host::kernels();
  (Loading::wanted() ? known.loaded : known.launched).insert(reinterpret_cast<void*>(kernel));
  if (Loading::wanted()) return true;
  known.most_threads = std::max(known.most_threads, std::uint64_t{blocks} * threads);
  cinch::cuda_on_host::run(blocks, threads, shared_bytes, [&] { kernel(arguments...); });
#ifdef CINCH_KERNELS_BY_NAME
  return fakecuda::kernels::Signature<Parameters...>::noted;
#else
  return true;
#endif
}

}  // namespace cinch::codecs::cuda
