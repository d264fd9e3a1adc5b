// SPDX-License-Identifier: Apache-2.0
#include "allocator/recording_driver.h"

#include <array>
#include <cstdio>

#include "allocator/driver_table.h"

namespace cinch::allocator {

struct RecordingDriver::Calls {
  static RecordingDriver& of(void* self) { return *static_cast<RecordingDriver*>(self); }

  static Status reserve(void* self, std::size_t bytes, Address* address) {
    RecordingDriver& d = of(self);
    const Status status = d.wrapped_.reserve(d.wrapped_.self, bytes, address);
    return d.note(Call::reserve, status, bytes, status == Status::ok ? *address : 0);
  }
  static Status unreserve(void* self, Address address, std::size_t bytes) {
    RecordingDriver& d = of(self);
    return d.note(Call::unreserve, d.wrapped_.unreserve(d.wrapped_.self, address, bytes), address,
                  bytes);
  }
  static Status create(void* self, std::size_t bytes, Handle* handle) {
    RecordingDriver& d = of(self);
    const Status status = d.wrapped_.create(d.wrapped_.self, bytes, handle);
    return d.note(Call::create, status, bytes, status == Status::ok ? *handle : 0);
  }
  static Status release(void* self, Handle handle) {
    RecordingDriver& d = of(self);
    return d.note(Call::release, d.wrapped_.release(d.wrapped_.self, handle), handle);
  }
  static Status map(void* self, Address address, std::size_t bytes, Handle handle) {
    RecordingDriver& d = of(self);
    return d.note(Call::map, d.wrapped_.map(d.wrapped_.self, address, bytes, handle), address,
                  bytes, handle);
  }
  static Status unmap(void* self, Address address, std::size_t bytes, Handle handle) {
    RecordingDriver& d = of(self);
    return d.note(Call::unmap, d.wrapped_.unmap(d.wrapped_.self, address, bytes, handle), address,
                  bytes, handle);
  }
  static Status set_access(void* self, Address address, std::size_t bytes) {
    RecordingDriver& d = of(self);
    return d.note(Call::set_access, d.wrapped_.set_access(d.wrapped_.self, address, bytes), address,
                  bytes);
  }
  static Status memory_info(void* self, std::size_t* free, std::size_t* total) {
    RecordingDriver& d = of(self);
    const Status status = d.wrapped_.memory_info(d.wrapped_.self, free, total);
    const bool known = status == Status::ok;
    return d.note(Call::memory_info, status, known ? *free : 0, known ? *total : 0);
  }
  static Status event_create(void* self, Event* event) {
    RecordingDriver& d = of(self);
    const Status status = d.wrapped_.event_create(d.wrapped_.self, event);
    return d.note(Call::event_create, status, status == Status::ok ? *event : 0);
  }
  static Status event_destroy(void* self, Event event) {
    RecordingDriver& d = of(self);
    return d.note(Call::event_destroy, d.wrapped_.event_destroy(d.wrapped_.self, event), event);
  }
  static Status event_record(void* self, Event event, Stream stream) {
    RecordingDriver& d = of(self);
    return d.note(Call::event_record, d.wrapped_.event_record(d.wrapped_.self, event, stream),
                  event, stream);
  }
  static Status event_query(void* self, Event event) {
    RecordingDriver& d = of(self);
    return d.note(Call::event_query, d.wrapped_.event_query(d.wrapped_.self, event), event);
  }
  static Status event_synchronize(void* self, Event event) {
    RecordingDriver& d = of(self);
    return d.note(Call::event_synchronize, d.wrapped_.event_synchronize(d.wrapped_.self, event),
                  event);
  }
  static Status stream_wait(void* self, Stream stream, Event event) {
    RecordingDriver& d = of(self);
    return d.note(Call::stream_wait, d.wrapped_.stream_wait(d.wrapped_.self, stream, event), stream,
                  event);
  }
  static std::uint64_t now(void* self) {
    const RecordingDriver& d = of(self);
    return d.wrapped_.now(d.wrapped_.self);
  }
};

Driver RecordingDriver::table() noexcept {
  Driver table = wrapped_;  // granularity and kind
  table.self = this;
  table.name = "recording";
  set_calls<Calls>(table);
  return table;
}

Status RecordingDriver::note(Call call, Status status, std::uint64_t a, std::uint64_t b,
                             std::uint64_t c) {
  const std::lock_guard lock(mutex_);
  records_.push_back({call, status, {a, b, c}});
  return status;
}

std::vector<RecordingDriver::Record> RecordingDriver::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

void RecordingDriver::clear() {
  const std::lock_guard lock(mutex_);
  records_.clear();
}

std::string RecordingDriver::text() const {
  static constexpr std::array<int, call_count> argument_counts = {2, 2, 2, 1, 3, 3, 2,
                                                                  2, 1, 1, 2, 1, 1, 2};
  std::string text;
  for (const Record& record : records()) {
    text += call_name(record.call);
    for (int i = 0; i < argument_counts[static_cast<std::size_t>(record.call)]; ++i) {
      char number[24];
      std::snprintf(number, sizeof number, " %llu",
                    static_cast<unsigned long long>(record.arguments[i]));
      text += number;
    }
    text += ": ";
    text += status_name(record.status);
    text += '\n';
  }
  return text;
}

}  // namespace cinch::allocator
