// SPDX-License-Identifier: Apache-2.0
//
// Preloaded beside libcinch.so: makes single allocations of the core fail, and counts its
// allocations and locks. An allocation is the core's when the first caller outside of the C++
// library is.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>

namespace {

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool holds(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= begin && at < end;
  }
};

Range core;
Range standard_library;
Range own;
std::atomic<long> countdown{0};  // 0: nothing is counted
std::atomic<long> counted{0};
std::atomic<long> locks{0};

int find(dl_phdr_info* info, std::size_t, void*) {
  Range range{UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + segment.p_memsz > range.end) range.end = begin + segment.p_memsz;
  }
  if (std::strstr(info->dlpi_name, "libcinch_torch-") != nullptr) core = range;
  if (std::strstr(info->dlpi_name, "libstdc++") != nullptr) standard_library = range;
  if (range.holds(reinterpret_cast<const void*>(&find))) own = range;
  return 0;
}

bool is_cores(const void* caller) {
  if (core.holds(caller)) return true;
  if (!standard_library.holds(caller)) return false;
  void* frames[12];
  const int n = backtrace(frames, 12);
  for (int i = 0; i < n; ++i) {
    if (own.holds(frames[i]) || standard_library.holds(frames[i])) continue;
    return core.holds(frames[i]);
  }
  return false;
}

/// Counts a lock that `caller` takes. @return libpthread's function of that name
template <typename Lock>
Lock* counting(const char* name, std::atomic<Lock*>& known, const void* caller) {
  if (core.holds(caller)) locks.fetch_add(1, std::memory_order_relaxed);
  Lock* lock = known.load(std::memory_order_relaxed);
  if (lock == nullptr) {
    lock = reinterpret_cast<Lock*>(dlsym(RTLD_NEXT, name));
    known.store(lock, std::memory_order_relaxed);
  }
  return lock;
}

void* allocate(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (countdown.load(std::memory_order_relaxed) != 0 && is_cores(caller)) {
    counted.fetch_add(1);
    if (countdown.fetch_sub(1) == 1) throw std::bad_alloc();
  }
  bytes = bytes == 0 ? 1 : bytes;
  void* memory = alignment == 0 ? std::malloc(bytes)
                                : std::aligned_alloc(
                                      alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, 0, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, 0, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#define EXPORT extern "C" __attribute__((visibility("default")))

// The `number`-th allocation of the core from now on fails, once; 0: none any more.
EXPORT void fail_allocation(long number) {
  if (core.end == 0) dl_iterate_phdr(find, nullptr);
  void* frame;
  backtrace(&frame, 1);  // loads what it needs
  counted = 0;
  countdown = number;
}

// Allocations of the core since then.
EXPORT long counted_allocations() {
  return counted;
}

// Locks that the core has taken, since the first call of fail_allocation.
EXPORT long counted_locks() {
  return locks;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static std::atomic<int (*)(pthread_mutex_t*)> known{nullptr};
  return counting("pthread_mutex_lock", known, __builtin_return_address(0))(mutex);
}
EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static std::atomic<int (*)(pthread_rwlock_t*)> known{nullptr};
  return counting("pthread_rwlock_rdlock", known, __builtin_return_address(0))(lock);
}
