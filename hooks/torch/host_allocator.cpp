// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/host_allocator.h"

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <c10/core/CPUAllocator.h>

#include "hooks/torch/buffer_pool.h"
#include "hooks/torch/fork.h"

namespace cinch::hooks {
namespace {

constexpr std::size_t smallest = std::size_t{1} << 20;
constexpr std::uintptr_t page = 4096;

class HostAllocator final : public c10::Allocator {
 public:
  explicit HostAllocator(c10::Allocator& before) : before_(before) {
    register_fork_lock(mutex_);
    register_fork_lock(pool_.mutex());
  }

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  c10::Allocator& before() const noexcept { return before_; }
  BufferPool& pool() noexcept { return pool_; }

 private:
  static void free_block(void* block);
  bool free_pooled(void* block);

  c10::Allocator& before_;
  BufferPool pool_;
  std::mutex mutex_;
  std::unordered_map<void*, c10::DataPtr> pooled_;  // blocks in use, and what gives them back
};

HostAllocator* installed = nullptr;

// The data pointer is its own context, as PyTorch expects of an ordinary allocator ("simple data
// pointers"), so the pool's own context is kept aside.
c10::DataPtr HostAllocator::allocate(std::size_t bytes) {
  if (bytes < smallest) return before_.allocate(bytes);
  c10::DataPtr buffer = pool_.take(bytes);
  void* block = buffer.get();
  if (block == nullptr) return before_.allocate(bytes);  // it knows the words for "no memory"
  {
    const std::lock_guard lock(mutex_);
    pooled_.emplace(block, std::move(buffer));
  }
  c10::profiledCPUMemoryReporter().New(block, bytes);
  return {block, block, free_block, c10::Device(c10::DeviceType::CPU)};
}

bool HostAllocator::free_pooled(void* block) {
  c10::DataPtr buffer;
  const std::lock_guard lock(mutex_);
  const auto found = pooled_.find(block);
  if (found == pooled_.end()) return false;
  buffer = std::move(found->second);
  pooled_.erase(found);
  return true;
}

// Also for blocks of the allocator before: PyTorch may hand any CPU block to raw_deleter().
void HostAllocator::free_block(void* block) {
  if (reinterpret_cast<std::uintptr_t>(block) % page == 0 && installed->free_pooled(block)) {
    c10::profiledCPUMemoryReporter().Delete(block);
    return;
  }
  installed->before_.raw_deleter()(block);
}

}  // namespace

void install_host_allocator() {
  c10::Allocator* before = c10::GetAllocator(c10::DeviceType::CPU);
  // One that doesn't free by a plain function is a program's own and not ours to wrap.
  if (before == nullptr || before->raw_deleter() == nullptr) return;
  installed = new HostAllocator(*before);
  c10::SetAllocator(c10::DeviceType::CPU, installed, /*priority=*/255);
}

void host_allocator_new_period() {
  if (installed != nullptr) installed->pool().new_period();
}

bool is_host_deleter(c10::DeleterFnPtr deleter) noexcept {
  const auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  return deleter == allocator->raw_deleter() ||
         (installed != nullptr && deleter == installed->before().raw_deleter());
}

}  // namespace cinch::hooks
