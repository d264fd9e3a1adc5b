// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/host_allocator.h"

#include <cstring>
#include <new>

#include <c10/core/CPUAllocator.h>

#include "allocator/driver/host_driver.h"

namespace cinch::allocator {
namespace {

class HostAllocator final : public c10::Allocator {
 public:
  HostAllocator(c10::Allocator& before, void (*hold_over_forks)(std::mutex&))
      : before_(before), core_(driver_.table(), Config::host()) {
    hold_over_forks(core_.mutex());
    hold_over_forks(driver_.mutex());
  }

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// A block of the core's, which begins at its address; null when there is no memory.
  void* take(std::size_t bytes) {
    return reinterpret_cast<void*>(core_.allocate(bytes));  // NOLINT(performance-no-int-to-ptr)
  }

  c10::Allocator& before() const noexcept { return before_; }
  Core& core() noexcept { return core_; }

 private:
  c10::DataPtr allocate_block(std::size_t bytes);
  static void free_block(void* block);

  c10::Allocator& before_;
  HostDriver driver_;
  Core core_;
};

HostAllocator* installed = nullptr;  // never destroyed: tensors may outlive everything

thread_local bool fills_with_zeros = false;

c10::DataPtr HostAllocator::allocate(std::size_t bytes) {
  c10::DataPtr block = allocate_block(bytes);
  if (fills_with_zeros) std::memset(block.get(), 0, bytes);
  return block;
}

c10::DataPtr HostAllocator::allocate_block(std::size_t bytes) {
  if (bytes < smallest_host_block) return before_.allocate(bytes);
  void* const block = take(bytes);
  if (block == nullptr) return before_.allocate(bytes);  // it throws PyTorch's own error
  c10::profiledCPUMemoryReporter().New(block, bytes);
  return {block, block, free_block, c10::Device(c10::DeviceType::CPU)};
}

// Also frees blocks of the replaced allocator: PyTorch may hand any CPU block to raw_deleter().
void HostAllocator::free_block(void* block) {
  const auto address = reinterpret_cast<Address>(block);
  if (address % Config::host().quantum == 0 && installed->core_.free(address)) {
    c10::profiledCPUMemoryReporter().Delete(block);
    return;
  }
  installed->before_.raw_deleter()(block);
}

}  // namespace

void install_host_allocator(void (*hold_over_forks)(std::mutex&)) {
  c10::Allocator* before = c10::GetAllocator(c10::DeviceType::CPU);
  // An allocator without a plain deleter is the program's own: do not wrap it.
  if (before == nullptr || before->raw_deleter() == nullptr) return;
  installed = new HostAllocator(*before, hold_over_forks);
  c10::SetAllocator(c10::DeviceType::CPU, installed, /*priority=*/255);
}

Core* host_core() noexcept {
  return installed == nullptr ? nullptr : &installed->core();
}

c10::DataPtr take_host_block(std::size_t bytes) noexcept {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (installed == nullptr || bytes < smallest_host_block) return {nullptr, cpu};
  void* block = nullptr;
  try {
    block = installed->take(bytes);
  } catch (const std::bad_alloc&) {
    // for the core's own notes
  }
  const auto free = [](void* own) { installed->core().free(reinterpret_cast<Address>(own)); };
  return {block, block, free, cpu};
}

void fill_host_blocks_with_zeros(bool wanted) noexcept {
  fills_with_zeros = wanted;
}

bool is_host_deleter(c10::DeleterFnPtr deleter) noexcept {
  const auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  return deleter == allocator->raw_deleter() ||
         (installed != nullptr && deleter == installed->before().raw_deleter());
}

}  // namespace cinch::allocator
