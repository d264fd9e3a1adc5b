// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <sys/mman.h>

#include "extents.h"
#include "say.h"
#include "settings.h"
#include "shared_count.h"

namespace fakecuda {
namespace {

/// Makes NaN in every floating-point type: all bits of the exponent are 1, the mantissa is not 0.
constexpr int poison_byte = 0xFF;

struct Arena {
  Arena() {
    for (bytes = std::size_t{16} << 40; bytes >= std::size_t{1} << 36; bytes /= 4) {
      void* memory =
          mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) continue;
      const auto address = reinterpret_cast<Address>(memory);
      begin = rounded_up(address, page_bytes);
      bytes -= page_bytes;
      free.give(begin, bytes);
      return;
    }
    bytes = 0;
    fault("no addresses for device memory");
  }
  Address begin = 0;
  std::size_t bytes = 0;
  Extents free;
};

struct State {
  Arena arena;
  std::map<Address, Region> regions;
  std::size_t limit = settings().memory;
  bool poison = settings().poison;
  std::size_t used[max_devices] = {};
};
State& state() {
  static auto* s = new State;  // used by destructors of statics
  return *s;
}

}  // namespace

bool is_device_address(const void* pointer) {
  return reinterpret_cast<Address>(pointer) - state().arena.begin < state().arena.bytes;
}

Address take_addresses(std::size_t bytes, std::size_t alignment) {
  const Address address =
      state().arena.free.take(rounded_up(bytes, page_bytes), std::max(alignment, page_bytes));
  return address == Extents::none ? 0 : address;
}

void give_addresses(Address address, std::size_t bytes) {
  bytes = rounded_up(bytes, page_bytes);
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  state().arena.free.give(address, bytes);
}

void add_region(const Region& region) {
  state().regions[region.address] = region;
}

void remove_region(Address address) {
  state().regions.erase(address);
}

const Region* find_region(const void* pointer) {
  const auto address = reinterpret_cast<Address>(pointer);
  auto& regions = state().regions;
  auto at = regions.upper_bound(address);
  if (at == regions.begin()) return nullptr;
  --at;
  return address - at->first < at->second.bytes ? &at->second : nullptr;
}

bool take_memory(int device, std::size_t bytes) {
  State& s = state();
  SharedCount* shared = shared_count();
  const std::size_t of_others = shared == nullptr ? 0 : shared->lock_and_sum(device);
  const std::size_t used = s.used[device] + of_others;
  const bool fits = used <= s.limit && bytes <= s.limit - used;
  if (fits) s.used[device] += bytes;
  if (shared != nullptr) shared->set_and_unlock(device, s.used[device]);
  return fits;
}

void give_memory(int device, std::size_t bytes) {
  State& s = state();
  s.used[device] -= bytes;
  if (SharedCount* shared = shared_count(); shared != nullptr) {
    shared->lock_and_sum(device);
    shared->set_and_unlock(device, s.used[device]);
  }
}

std::size_t memory_limit() {
  return state().limit;
}

std::size_t memory_used(int device) {
  return state().used[device];
}

std::size_t memory_used_by_all(int device) {
  State& s = state();
  SharedCount* shared = shared_count();
  if (shared == nullptr) return s.used[device];
  const std::size_t of_others = shared->lock_and_sum(device);
  shared->set_and_unlock(device, s.used[device]);
  return s.used[device] + of_others;
}

bool accessible(const void* memory, std::size_t bytes, int device) {
  if (bytes == 0 || !is_device_address(memory)) return true;
  const Region* region = find_region(memory);
  if (region == nullptr) return false;
  const auto address = reinterpret_cast<Address>(memory);
  if (region->kind == Kind::reserved) return mapped(address, bytes, device);
  return bytes <= region->bytes - (address - region->address);
}

void poison(void* memory, std::size_t bytes) {
  std::memset(memory, poison_byte, bytes);
}

void poison_fresh(void* memory, std::size_t bytes) {
  if (state().poison) poison(memory, bytes);
}

}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API void fakecuda_set_memory(std::size_t bytes) {
  const Guard guard(global_lock());
  state().limit = bytes;
}
FAKECUDA_API std::size_t fakecuda_used(int device) {
  const Guard guard(global_lock());
  return device >= 0 && device < max_devices ? memory_used(device) : 0;
}
FAKECUDA_API void fakecuda_set_poison(int on) {
  const Guard guard(global_lock());
  state().poison = on != 0;
}
FAKECUDA_API void fakecuda_poison(void* memory, std::size_t bytes) {
  const Guard guard(global_lock());
  if (!accessible(memory, bytes)) {
    fault("fakecuda_poison: %p, %zu bytes: not accessible", memory, bytes);
    return;
  }
  poison(memory, bytes);
}
