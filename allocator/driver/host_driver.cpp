// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver/host_driver.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "allocator/driver/driver_table.h"

namespace cinch::allocator {
namespace {

// Resets addresses to a new reservation's state: no access, no pages, huge pages wanted.
bool make_bare(Address address, std::size_t bytes) noexcept {
  void* where = to_pointer(address);
  if (mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    return false;
  }
  madvise(where, bytes, MADV_HUGEPAGE);
  return true;
}

// Reads the number after `label` in a kernel file; 0 when there is none ("max"). No heap calls.
std::size_t number_in(const char* path, const char* label) noexcept {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[512];
  const ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return 0;
  text[count] = '\0';
  const char* at = text;
  if (*label != '\0') {
    at = __builtin_strstr(text, label);
    if (at == nullptr) return 0;
    at += __builtin_strlen(label);
  }
  std::size_t value = 0;
  return std::sscanf(at, " %zu", &value) == 1 ? value : 0;
}

}  // namespace

struct HostDriver::Calls {
  static HostDriver& of(void* self) { return *static_cast<HostDriver*>(self); }

  static Status reserve(void*, std::size_t bytes, Address* address) {
    if (bytes > SIZE_MAX - granularity) return Status::out_of_addresses;
    void* raw = mmap(nullptr, bytes + granularity, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return Status::out_of_addresses;
    const auto begin = reinterpret_cast<Address>(raw);
    const Address start = (begin + granularity - 1) / granularity * granularity;
    if (start > begin) munmap(raw, start - begin);
    munmap(to_pointer(start + bytes), begin + granularity - start);
    madvise(to_pointer(start), bytes, MADV_HUGEPAGE);
    *address = start;
    return Status::ok;
  }

  static Status unreserve(void* self, Address address, std::size_t bytes) {
    HostDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    d.vacate(address, bytes);
    return munmap(to_pointer(address), bytes) == 0 ? Status::ok : Status::failed;
  }

  static Status create(void* self, std::size_t bytes, Handle* handle) {
    HostDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    try {
      if (d.unused_.empty()) {
        // So that release needs no heap.
        if (d.unused_.capacity() <= d.handles_.size())
          d.unused_.reserve(2 * d.handles_.size() + 64);
        d.handles_.emplace_back();
        d.unused_.push_back(d.handles_.size());
      }
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory;
    }
    *handle = d.unused_.back();
    d.unused_.pop_back();
    d.handles_[*handle - 1] = {.bytes = bytes};
    return Status::ok;
  }

  static Status release(void* self, Handle handle) {
    HostDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    d.drop_pages(d.handles_[handle - 1]);
    d.unused_.push_back(handle);
    return Status::ok;
  }

  static Status map(void* self, Address address, std::size_t bytes, Handle handle) {
    HostDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    Pages& pages = d.handles_[handle - 1];
    if (pages.home == address) {
      d.parked_.erase(address);
    } else if (const auto found = d.parked_.find(address);
               found != d.parked_.end() && d.handles_[found->second - 1].bytes == bytes) {
      const Handle other = found->second;
      if (pages.home != 0) {
        d.parked_.at(pages.home) = other;
      }
      d.parked_.erase(found);
      d.handles_[other - 1].home = pages.home;
    } else {
      d.vacate(address, bytes);
      if (pages.home != 0 && !move(d, pages, address)) return Status::out_of_memory;
    }
    pages.home = address;
    pages.mapped = true;
    return Status::ok;
  }

  // Moves pages. DONTUNMAP, else another thread could map something at the old place before it is
  // reserved again. If mremap fails the pages are dropped, and faulted in anew at the next write.
  // The target is reserved again, since the failed call may have unmapped it.
  static bool move(HostDriver& d, Pages& pages, Address address) {
    const Address from = pages.home;
    if (mremap(to_pointer(from), pages.bytes, pages.bytes,
               MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
               to_pointer(address)) == MAP_FAILED) {
      d.drop_pages(pages);
      return make_bare(address, pages.bytes);
    }
    d.parked_.erase(from);
    make_bare(from, pages.bytes);
    return true;
  }

  static Status unmap(void* self, Address address, std::size_t, Handle handle) {
    HostDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    try {
      d.parked_.emplace(address, handle);
    } catch (const std::bad_alloc&) {
      return Status::failed;
    }
    d.handles_[handle - 1].mapped = false;
    return Status::ok;
  }

  static Status set_access(void*, Address address, std::size_t bytes) {
    return mprotect(to_pointer(address), bytes, PROT_READ | PROT_WRITE) == 0
               ? Status::ok
               : Status::out_of_memory;
  }

  // The smaller of what the kernel reports and what the control group allows.
  static Status memory_info(void*, std::size_t* free, std::size_t* total) {
    struct sysinfo info;
    if (sysinfo(&info) != 0) return Status::failed;
    *total = std::size_t{info.totalram} * info.mem_unit;
    const std::size_t available = number_in("/proc/meminfo", "MemAvailable:") * 1024;
    *free = available != 0 ? available : std::size_t{info.freeram} * info.mem_unit;
    const std::size_t most = number_in("/sys/fs/cgroup/memory.max", "");
    if (most != 0) {
      const std::size_t current = number_in("/sys/fs/cgroup/memory.current", "");
      *total = std::min(*total, most);
      *free = std::min(*free, most - std::min(current, most));
    }
    return Status::ok;
  }

  static std::uint64_t now(void*) { return monotonic_nanoseconds(); }

  // Host work runs in program order, so every event is done at once.
  static Status event_create(void*, Event* event) {
    *event = 1;
    return Status::ok;
  }
  static Status event_destroy(void*, Event) { return Status::ok; }
  static Status event_query(void*, Event) { return Status::ok; }
  static Status event_synchronize(void*, Event) { return Status::ok; }
  static Status event_record(void*, Event, Stream) { return Status::ok; }
  static Status stream_wait(void*, Stream, Event) { return Status::ok; }
};

// Gives a handle's pages to the kernel. pre: it is not mapped; mutex_ is held
void HostDriver::drop_pages(Pages& pages) noexcept {
  if (pages.home == 0) return;
  parked_.erase(pages.home);
  if (!make_bare(pages.home, pages.bytes)) {
    // Too many mappings for another one: drop the pages all the same.
    madvise(to_pointer(pages.home), pages.bytes, MADV_DONTNEED);
  }
  pages.home = 0;
}

// Drops pages that unmapped handles left in the range. pre: mutex_ is held
void HostDriver::vacate(Address address, std::size_t bytes) noexcept {
  auto at = parked_.lower_bound(address);
  if (at != parked_.begin()) {
    const auto before = std::prev(at);
    if (before->first + handles_[before->second - 1].bytes > address) at = before;
  }
  while (at != parked_.end() && at->first < address + bytes) {
    Pages& pages = handles_[at->second - 1];
    ++at;  // drop_pages erases the one before
    drop_pages(pages);
  }
}

Driver HostDriver::table() noexcept {
  Driver table;
  table.self = this;
  table.name = "host";
  table.granularity = granularity;
  table.synchronous = true;
  set_calls<Calls>(table);
  return table;
}

}  // namespace cinch::allocator
