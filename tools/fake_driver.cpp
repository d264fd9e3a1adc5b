// SPDX-License-Identifier: Apache-2.0
#include "tools/fake_driver.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocator/driver/driver_table.h"

namespace cinch::allocator {
namespace {

// First address where addresses are mere numbers.
constexpr Address first_unbacked_address = Address{1} << 40;

bool reserve_only(void* where, std::size_t bytes) {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  return mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1,
              0) != MAP_FAILED;
}

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15u);  // splitmix64
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

struct FakeDriver::Calls {
  static FakeDriver& of(void* self) { return *static_cast<FakeDriver*>(self); }

  static Status reserve(void* self, std::size_t bytes, Address* address) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::reserve)) return *status;
    if (bytes == 0 || bytes % d.options_.granularity != 0) return d.misused();
    if (bytes > d.options_.address_bytes - d.address_used_) return Status::out_of_addresses;
    Address start = d.next_address_;
    if (d.options_.backed) {
      const std::size_t slack = d.options_.granularity;
      void* raw = mmap(nullptr, bytes + slack, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (raw == MAP_FAILED) return Status::out_of_addresses;
      const auto begin = reinterpret_cast<Address>(raw);
      start = (begin + slack - 1) / slack * slack;
      if (start > begin) munmap(raw, start - begin);
      if (start + bytes < begin + bytes + slack) {
        munmap(to_pointer(start + bytes), begin + slack - start);
      }
    } else {
      d.next_address_ += bytes + d.options_.granularity;  // a gap, so that none adjoin
    }
    d.reservations_.emplace(start, bytes);
    d.address_used_ += bytes;
    *address = start;
    return Status::ok;
  }

  static Status unreserve(void* self, Address address, std::size_t bytes) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::unreserve)) return *status;
    const auto found = d.reservations_.find(address);
    if (found == d.reservations_.end() || found->second != bytes) return d.misused();
    const auto inside = d.mappings_.lower_bound(address);
    if (inside != d.mappings_.end() && inside->first < address + bytes) return d.misused();
    if (d.options_.backed) munmap(to_pointer(address), bytes);
    d.reservations_.erase(found);
    d.address_used_ -= bytes;
    return Status::ok;
  }

  static Status create(void* self, std::size_t bytes, Handle* handle) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::create)) {
      return *status == Status::failed ? Status::out_of_memory : *status;
    }
    if (bytes == 0 || bytes % d.options_.granularity != 0) return d.misused();
    if (bytes > d.memory_bytes_ || d.created_ > d.memory_bytes_ - bytes ||
        d.handles_.size() >= d.options_.max_handles) {
      return Status::out_of_memory;
    }
    d.created_ += bytes;
    d.peak_created_ = std::max(d.peak_created_, d.created_);
    *handle = d.next_handle_++;
    d.handles_.emplace(*handle, Physical{bytes, d.take_offset(bytes), 0});
    return Status::ok;
  }

  static Status release(void* self, Handle handle) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::release)) return *status;
    const auto found = d.handles_.find(handle);
    if (found == d.handles_.end() || found->second.mappings != 0) return d.misused();
    if (d.options_.backed) {
      fallocate(d.memory_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(found->second.offset), static_cast<off_t>(found->second.bytes));
      d.free_offsets_.emplace(found->second.bytes, found->second.offset);
    }
    d.created_ -= found->second.bytes;
    d.handles_.erase(found);
    return Status::ok;
  }

  static Status map(void* self, Address address, std::size_t bytes, Handle handle) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::map)) return *status;
    const auto found = d.handles_.find(handle);
    if (found == d.handles_.end() || found->second.bytes != bytes ||
        (d.options_.synchronous && found->second.mappings != 0) ||
        address % d.options_.granularity != 0 || !d.reserved(address, bytes)) {
      return d.misused();
    }
    const auto after = d.mappings_.lower_bound(address);
    if (after != d.mappings_.end() && after->first < address + bytes) return d.misused();
    if (after != d.mappings_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second.bytes > address) return d.misused();
    }
    if (d.options_.backed &&
        mmap(to_pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, d.memory_,
             static_cast<off_t>(found->second.offset)) == MAP_FAILED) {
      return Status::failed;
    }
    ++found->second.mappings;
    d.mappings_.emplace(address, Mapping{bytes, handle, false});
    d.mapped_ += bytes;
    return Status::ok;
  }

  static Status unmap(void* self, Address address, std::size_t bytes, Handle handle) {
    FakeDriver& d = of(self);
    std::unique_lock lock(d.mutex_);
    if (const auto status = d.injected(Call::unmap)) return *status;
    if (d.on_unmap_) {
      const auto callback = d.on_unmap_;
      lock.unlock();
      callback(address, bytes);
      lock.lock();
    }
    const auto found = d.mappings_.find(address);
    if (found == d.mappings_.end() || found->second.bytes != bytes ||
        found->second.handle != handle) {
      return d.misused();
    }
    if (d.options_.backed && !reserve_only(to_pointer(address), bytes)) return Status::failed;
    --d.handles_.at(handle).mappings;
    d.mappings_.erase(found);
    d.mapped_ -= bytes;
    return Status::ok;
  }

  static Status set_access(void* self, Address address, std::size_t bytes) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::set_access)) return *status;
    Address at = address;
    std::vector<Mapping*> covered;
    for (auto m = d.mappings_.find(address); at < address + bytes; ++m) {
      if (m == d.mappings_.end() || m->first != at) return d.misused();
      covered.push_back(&m->second);
      at += m->second.bytes;
    }
    if (at != address + bytes) return d.misused();
    if (d.options_.backed && mprotect(to_pointer(address), bytes, PROT_READ | PROT_WRITE) != 0) {
      return Status::failed;
    }
    for (Mapping* mapping : covered) mapping->accessible = true;
    return Status::ok;
  }

  static Status memory_info(void* self, std::size_t* free, std::size_t* total) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::memory_info)) return *status;
    *total = d.memory_bytes_;
    *free = d.memory_bytes_ - std::min(d.created_, d.memory_bytes_);
    return Status::ok;
  }

  static Status event_create(void* self, Event* event) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::event_create)) return *status;
    *event = d.next_event_++;
    d.events_.emplace(*event, Clock());
    return Status::ok;
  }

  static Status event_destroy(void* self, Event event) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::event_destroy)) return *status;
    return d.events_.erase(event) == 1 ? Status::ok : d.misused();
  }

  static Status event_record(void* self, Event event, Stream stream) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::event_record)) return *status;
    const auto found = d.events_.find(event);
    if (found == d.events_.end()) return d.misused();
    const StreamState& state = d.streams_[stream];
    found->second = state.after;
    found->second[stream] = state.issued;
    d.early_queries_.erase(event);
    return Status::ok;
  }

  static Status event_query(void* self, Event event) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::event_query)) return *status;
    const auto found = d.events_.find(event);
    if (found == d.events_.end()) return d.misused();
    if (d.options_.instant && d.options_.lag == 0) finish(d, found->second);
    if (!d.is_done(found->second)) return Status::not_ready;
    const bool late = d.early_queries_[event]++ < d.options_.event_delay;
    return late ? Status::not_ready : Status::ok;
  }

  static Status event_synchronize(void* self, Event event) {
    FakeDriver& d = of(self);
    std::unique_lock lock(d.mutex_);
    if (const auto status = d.injected(Call::event_synchronize)) return *status;
    if (d.on_synchronize_) {
      const auto callback = d.on_synchronize_;
      lock.unlock();
      callback();
      lock.lock();
    }
    const auto found = d.events_.find(event);
    if (found == d.events_.end()) return d.misused();
    finish(d, found->second);
    return Status::ok;
  }

  static Status stream_wait(void* self, Stream stream, Event event) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    if (const auto status = d.injected(Call::stream_wait)) return *status;
    const auto found = d.events_.find(event);
    if (found == d.events_.end()) return d.misused();
    Clock& after = d.streams_[stream].after;
    for (const auto& [other, number] : found->second) {
      after[other] = std::max(after[other], number);
    }
    return Status::ok;
  }

  static std::uint64_t now(void* self) {
    FakeDriver& d = of(self);
    const std::lock_guard lock(d.mutex_);
    return d.now_;
  }

  // Finishes the work. With a lag, time passes until then.
  static void finish(FakeDriver& d, const Clock& clock) {
    for (const auto& [stream, number] : clock) {
      StreamState& state = d.streams_[stream];
      for (const StreamState::Due& due : state.running) {
        if (due.number <= number) d.now_ = std::max(d.now_, due.time);
      }
      state.done = std::max(state.done, number);
    }
  }
};

FakeDriver::FakeDriver(const Options& options)
    : options_(options),
      memory_bytes_(options.memory_bytes),
      next_address_(first_unbacked_address) {
  if (options.backed) memory_ = memfd_create("cinch-fake-device", MFD_CLOEXEC);
}

FakeDriver::~FakeDriver() {
  if (!options_.backed) return;
  for (const auto& [address, bytes] : reservations_) munmap(to_pointer(address), bytes);
  if (memory_ >= 0) close(memory_);
}

Driver FakeDriver::table() noexcept {
  Driver table;
  table.self = this;
  table.name = "fake";
  table.granularity = options_.granularity;
  table.synchronous = options_.synchronous;
  set_calls<Calls>(table);
  return table;
}

// pre: mutex_ is held
std::optional<Status> FakeDriver::injected(Call call) {
  const auto index = static_cast<std::size_t>(call);
  ++calls_[index];
  Planned& planned = planned_[index];
  if (planned.left > 0 && --planned.left == 0) return planned.status;
  if (planned_any_ > 0 && --planned_any_ == 0) return Status::failed;
  if (probability_ > 0 &&
      static_cast<double>(next_random(random_) >> 11) * 0x1p-53 < probability_) {
    return Status::failed;
  }
  return std::nullopt;
}

Status FakeDriver::misused() {
  ++misuses_;
  return Status::failed;
}

bool FakeDriver::reserved(Address address, std::size_t bytes) const {
  auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

// Notes which work has been done by now. pre: mutex_ is held
void FakeDriver::catch_up() const {
  for (auto& [stream, state] : streams_) {
    while (!state.running.empty() && state.running.front().time <= now_) {
      state.done = std::max(state.done, state.running.front().number);
      state.running.pop_front();
    }
  }
}

bool FakeDriver::is_done(const Clock& clock) const {
  catch_up();
  return std::ranges::all_of(
      clock, [this](const auto& entry) { return streams_[entry.first].done >= entry.second; });
}

// pre: mutex_ is held
std::size_t FakeDriver::take_offset(std::size_t bytes) {
  if (!options_.backed) return 0;
  if (const auto found = free_offsets_.find(bytes); found != free_offsets_.end()) {
    const std::size_t offset = found->second;
    free_offsets_.erase(found);
    return offset;
  }
  const std::size_t offset = next_offset_;
  next_offset_ += bytes;
  // If the file can't grow, map fails or the test's write faults: nothing is hidden.
  if (ftruncate(memory_, static_cast<off_t>(next_offset_)) != 0) ++misuses_;
  return offset;
}

void FakeDriver::fail(Call call, std::uint64_t nth, Status status) {
  const std::lock_guard lock(mutex_);
  planned_[static_cast<std::size_t>(call)] = {nth, status};
}

void FakeDriver::fail_any(std::uint64_t nth) {
  const std::lock_guard lock(mutex_);
  planned_any_ = nth;
}

void FakeDriver::fail_randomly(double probability, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  probability_ = probability;
  random_ = seed;
}

void FakeDriver::stop_failing() {
  const std::lock_guard lock(mutex_);
  planned_ = {};
  planned_any_ = 0;
  probability_ = 0;
}

FakeDriver::Work FakeDriver::work(Stream stream) {
  const std::lock_guard lock(mutex_);
  StreamState& state = streams_[stream];
  ++state.issued;
  if (options_.lag != 0) {
    catch_up();
    state.running.push_back({state.issued, now_ + options_.lag});
  }
  return {stream, state.issued};
}

bool FakeDriver::ordered(const Work& work, Stream stream) const {
  const std::lock_guard lock(mutex_);
  catch_up();
  if (work.stream == stream || streams_[work.stream].done >= work.number) return true;
  const Clock& after = streams_[stream].after;
  const auto found = after.find(work.stream);
  return found != after.end() && found->second >= work.number;
}

bool FakeDriver::done(const Work& work) const {
  const std::lock_guard lock(mutex_);
  catch_up();
  return streams_[work.stream].done >= work.number;
}

void FakeDriver::complete(Stream stream) {
  const std::lock_guard lock(mutex_);
  StreamState& state = streams_[stream];
  state.done = state.issued;
  Calls::finish(*this, Clock(state.after));
}

void FakeDriver::complete_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [stream, state] : streams_) state.done = state.issued;
}

void FakeDriver::advance(std::uint64_t nanoseconds) {
  const std::lock_guard lock(mutex_);
  now_ += nanoseconds;
}

void FakeDriver::on_unmap(std::function<void(Address, std::size_t)> callback) {
  const std::lock_guard lock(mutex_);
  on_unmap_ = std::move(callback);
}

void FakeDriver::on_synchronize(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  on_synchronize_ = std::move(callback);
}

std::uint64_t FakeDriver::calls(Call call) const {
  const std::lock_guard lock(mutex_);
  return calls_[static_cast<std::size_t>(call)];
}

std::uint64_t FakeDriver::calls() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const std::uint64_t count : calls_) sum += count;
  return sum;
}

std::size_t FakeDriver::handles() const {
  const std::lock_guard lock(mutex_);
  return handles_.size();
}

std::size_t FakeDriver::created_bytes() const {
  const std::lock_guard lock(mutex_);
  return created_;
}

std::size_t FakeDriver::peak_created_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_created_;
}

std::size_t FakeDriver::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return mapped_;
}

std::size_t FakeDriver::reserved_address_bytes() const {
  const std::lock_guard lock(mutex_);
  return address_used_;
}

std::size_t FakeDriver::events() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

std::uint64_t FakeDriver::misuses() const {
  const std::lock_guard lock(mutex_);
  return misuses_;
}

bool FakeDriver::accessible(Address address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Address end = address + bytes;
  auto m = mappings_.upper_bound(address);
  if (m == mappings_.begin()) return false;
  --m;
  while (address < end) {
    if (m == mappings_.end() || m->first > address || m->first + m->second.bytes <= address ||
        !m->second.accessible) {
      return false;
    }
    address = m->first + m->second.bytes;
    ++m;
  }
  return true;
}

std::vector<FakeDriver::Piece> FakeDriver::behind(Address address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  std::vector<Piece> pieces;
  auto m = mappings_.upper_bound(address);
  if (m != mappings_.begin()) --m;
  for (; m != mappings_.end() && m->first < address + bytes; ++m) {
    const Address from = std::max(address, m->first);
    const Address to = std::min(address + bytes, m->first + m->second.bytes);
    if (from < to) pieces.push_back({m->second.handle, from - m->first, to - from});
  }
  return pieces;
}

}  // namespace cinch::allocator
