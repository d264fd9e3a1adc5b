// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/buffer_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "hooks/torch/process/no_throw.h"

namespace cinch::hooks {
namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t page = 4096;
// Smaller buffers come from the C library, which does well there; a mapping for each would exhaust
// the number of mappings.
constexpr std::size_t smallest_pooled = std::size_t{128} << 10;
constexpr std::size_t huge_page = std::size_t{2} << 20;

// What a pool may hold beyond the peak use, so that buffers of different sizes that take turns
// don't evict each other: mapping and clearing them anew cost a GPT 5 % of its time.
constexpr std::size_t slack_share = 8;
constexpr std::size_t least_slack = std::size_t{8} << 20;

void* map(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

// Maps large buffers at a huge page's boundary, so that the kernel can use huge pages: 512 times
// fewer faults.
void* map_aligned(std::size_t bytes) {
  if (bytes < huge_page) return map(bytes);
  auto* start = static_cast<std::byte*>(map(bytes + huge_page));
  if (start == nullptr) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::size_t head = (huge_page - address % huge_page) % huge_page;
  if (head != 0) munmap(start, head);
  if (head != huge_page) munmap(start + head + bytes, huge_page - head);
  madvise(start + head, bytes, MADV_HUGEPAGE);
  return start + head;
}

// Rounds up to a multiple of an eighth of the size's power of two, so that buffers serve sizes that
// are nearly equal. At most an eighth is lost.
std::size_t rounded(std::size_t bytes) {
  std::size_t step = page;
  while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

c10::DataPtr BufferPool::take(std::size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, cpu};
  if (first_ != nullptr) {
    if (c10::DataPtr given = first_(bytes); given.get() != nullptr) return given;
  }
  if (bytes < smallest_pooled) {
    void* data = std::aligned_alloc(cache_line, (bytes + cache_line - 1) / cache_line * cache_line);
    return {data, data, std::free, cpu};
  }
  bytes = rounded(bytes);
  std::list<Buffer*> freed;
  Buffer* buffer = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::find_if(idle_.begin(), idle_.end(),
                                   [bytes](const Buffer* b) { return b->bytes == bytes; });
    used_bytes_ += bytes;
    peak_now_ = std::max(peak_now_, used_bytes_);
    if (fits != idle_.end()) {
      buffer = *fits;
      buffer->link.splice(buffer->link.begin(), idle_, fits);
      idle_bytes_ -= bytes;
    }
    trim(freed);
  }
  unmap(freed);
  if (buffer == nullptr) {
    buffer = make_buffer(bytes);
    if (buffer == nullptr) {
      const std::lock_guard lock(mutex_);
      used_bytes_ -= bytes;
      return {nullptr, cpu};
    }
  }
  return {buffer->data, buffer, give_back, cpu};
}

BufferPool::Buffer* BufferPool::make_buffer(std::size_t bytes) {
  std::unique_ptr<Buffer> buffer;
  if (!if_memory_allows([&] {
        buffer = std::make_unique<Buffer>(Buffer{this, nullptr, bytes, {}});
        buffer->link.push_back(buffer.get());
      })) {
    return nullptr;
  }
  buffer->data = map_aligned(bytes);
  return buffer->data == nullptr ? nullptr : buffer.release();
}

void BufferPool::unmap(const std::list<Buffer*>& buffers) {
  for (Buffer* buffer : buffers) {
    munmap(buffer->data, buffer->bytes);
    delete buffer;
  }
}

void BufferPool::give_back(void* context) {
  auto* buffer = static_cast<Buffer*>(context);
  BufferPool& pool = *buffer->pool;
  std::list<Buffer*> freed;
  {
    const std::lock_guard lock(pool.mutex_);
    pool.used_bytes_ -= buffer->bytes;
    pool.idle_bytes_ += buffer->bytes;
    pool.idle_.splice(pool.idle_.begin(), buffer->link);
    pool.trim(freed);
  }
  unmap(freed);
}

// pre: mutex_ is held
void BufferPool::trim(std::list<Buffer*>& freed) {
  const std::size_t peak = std::max(peak_now_, peak_before_);
  const std::size_t limit = peak + std::max(peak / slack_share, least_slack);
  while (!idle_.empty() && idle_bytes_ + used_bytes_ > limit) {
    idle_bytes_ -= idle_.back()->bytes;
    freed.splice(freed.begin(), idle_, std::prev(idle_.end()));
  }
}

void BufferPool::new_period() {
  std::list<Buffer*> freed;
  {
    const std::lock_guard lock(mutex_);
    peak_before_ = peak_now_;
    peak_now_ = used_bytes_;
    trim(freed);
  }
  unmap(freed);
}

std::size_t BufferPool::release_idle() {
  std::list<Buffer*> freed;
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    freed.swap(idle_);
    bytes = std::exchange(idle_bytes_, 0);
  }
  unmap(freed);
  return bytes;
}

std::size_t BufferPool::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

std::size_t BufferPool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

c10::DataPtr zero_pages(std::size_t bytes) {
  struct Pages {
    void* data;
    std::size_t bytes;
  };
  const c10::Device cpu(c10::DeviceType::CPU);
  void* data = map(bytes);
  auto* pages = data == nullptr ? nullptr : new (std::nothrow) Pages{data, bytes};
  if (pages == nullptr) {
    if (data != nullptr) munmap(data, bytes);
    return {nullptr, cpu};
  }
  return {data, pages,
          [](void* context) {
            auto* p = static_cast<Pages*>(context);
            munmap(p->data, p->bytes);
            delete p;
          },
          cpu};
}

}  // namespace cinch::hooks
