// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/driver/watched_driver.h"

#include <algorithm>
#include <new>

#include "allocator/driver/driver_table.h"

namespace cinch::allocator {

struct WatchedDriver::Calls {
  static WatchedDriver& of(void* self) { return *static_cast<WatchedDriver*>(self); }

  template <auto Member, class... Arguments>
  static auto pass(void* self, Arguments... arguments) {
    const Driver& inner = of(self).inner_;
    return (inner.*Member)(inner.self, arguments...);
  }

  static Status reserve(void* self, std::size_t bytes, Address* address) {
    const Status status = pass<&Driver::reserve>(self, bytes, address);
    if (status == Status::ok) of(self).observer_(Change::reserved, *address, bytes);
    return status;
  }
  static Status unreserve(void* self, Address address, std::size_t bytes) {
    of(self).observer_(Change::unreserving, address, bytes);
    const Status status = pass<&Driver::unreserve>(self, address, bytes);
    if (status != Status::ok) of(self).observer_(Change::reserved, address, bytes);
    return status;
  }
  static Status create(void* self, std::size_t bytes, Handle* handle) {
    return pass<&Driver::create>(self, bytes, handle);
  }
  static Status release(void* self, Handle handle) { return pass<&Driver::release>(self, handle); }
  static Status map(void* self, Address address, std::size_t bytes, Handle handle) {
    auto& silent = of(self).silent_;
    try {
      silent.reserve(silent.size() + 1);
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory;
    }
    const Status status = pass<&Driver::map>(self, address, bytes, handle);
    if (status == Status::ok) silent.emplace_back(address, bytes);
    return status;
  }
  static Status unmap(void* self, Address address, std::size_t bytes, Handle handle) {
    WatchedDriver& watched = of(self);
    const auto at = std::ranges::find(watched.silent_, std::pair{address, bytes});
    const bool told = at == watched.silent_.end();
    if (told) watched.observer_(Change::unmapping, address, bytes);
    const Status status = pass<&Driver::unmap>(self, address, bytes, handle);
    if (told && status != Status::ok) watched.observer_(Change::mapped, address, bytes);
    if (!told && status == Status::ok) watched.silent_.erase(at);
    return status;
  }
  static Status set_access(void* self, Address address, std::size_t bytes) {
    const Status status = pass<&Driver::set_access>(self, address, bytes);
    if (status != Status::ok) return status;
    WatchedDriver& watched = of(self);
    std::erase_if(watched.silent_, [&](const auto& range) {
      if (range.first < address || range.first >= address + bytes) return false;
      watched.observer_(Change::mapped, range.first, range.second);
      return true;
    });
    return status;
  }
  static Status memory_info(void* self, std::size_t* free, std::size_t* total) {
    return pass<&Driver::memory_info>(self, free, total);
  }
  static Status event_create(void* self, Event* event) {
    return pass<&Driver::event_create>(self, event);
  }
  static Status event_destroy(void* self, Event event) {
    return pass<&Driver::event_destroy>(self, event);
  }
  static Status event_record(void* self, Event event, Stream stream) {
    return pass<&Driver::event_record>(self, event, stream);
  }
  static Status event_query(void* self, Event event) {
    return pass<&Driver::event_query>(self, event);
  }
  static Status event_synchronize(void* self, Event event) {
    return pass<&Driver::event_synchronize>(self, event);
  }
  static Status stream_wait(void* self, Stream stream, Event event) {
    return pass<&Driver::stream_wait>(self, stream, event);
  }
  static std::uint64_t now(void* self) { return pass<&Driver::now>(self); }
};

Driver WatchedDriver::table() noexcept {
  Driver table = inner_;
  table.self = this;
  set_calls<Calls>(table);
  return table;
}

}  // namespace cinch::allocator
