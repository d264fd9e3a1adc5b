// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/stream_work.h"

#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/DeviceGuard.h>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/cuda_codecs.h"

namespace cinch::hooks {
namespace {

// Events for use again, by device, since each stays on the device where it was first recorded.
// Never destroyed, nor are the events: at the process's end CUDA may be gone before them. A forked
// child, where CUDA does not work, leaves the parent's pool and events alone; its lock may be
// taken.
class EventPool {
 public:
  std::shared_ptr<c10::Event> take(c10::Device device) {
    std::unique_ptr<c10::Event> event;
    if (is_ours()) {
      const std::lock_guard lock(mutex_);
      auto& spare = spare_[device.index()];
      if (!spare.empty()) {
        event = std::move(spare.back());
        spare.pop_back();
      }
    }
    if (event == nullptr) event = std::make_unique<c10::Event>(device.type());
    return {event.release(),
            [this](c10::Event* used) { give_back(std::unique_ptr<c10::Event>(used)); }};
  }

 private:
  bool is_ours() const noexcept { return made_after_ == forks_before(); }

  void give_back(std::unique_ptr<c10::Event> event) noexcept {
    if (is_ours() && event->was_marked_for_recording()) {
      try {
        const std::lock_guard lock(mutex_);
        spare_[event->device_index()].push_back(std::move(event));
      } catch (const std::exception&) {
        // No memory for the list: the event is lost.
      }
    }
    static_cast<void>(event.release());
  }

  const unsigned made_after_ = forks_before();
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::vector<std::unique_ptr<c10::Event>>> spare_;
};

EventPool& events() {
  static auto& pool = *new EventPool;
  return pool;
}

}  // namespace

// The guards: c10::Event goes back to the current device by cudaSetDevice, which would make a
// context there. A guard goes back without.

StreamWork work_of(const c10::Stream& stream) {
  const c10::OptionalDeviceGuard guard(stream.device());
  StreamWork work{stream, events().take(stream.device())};
  work.done->record(stream);
  return work;
}

StreamWork work_beside(const c10::Stream& stream, const c10::Stream& reader) {
  return stream == reader ? StreamWork{stream, nullptr} : work_of(stream);
}

void StreamWork::block(const c10::Stream& reader) const {
  if (reader == stream) return;
  const StreamWork recorded = done != nullptr ? *this : work_of(stream);
  const c10::OptionalDeviceGuard guard(reader.device());
  recorded.done->block(reader);
}

codecs::cuda::Progress StreamWork::progress() const noexcept try {
  const c10::OptionalDeviceGuard guard(stream.device());
  return cuda_codecs()->progress(done->eventId());
} catch (const std::exception&) {
  return codecs::cuda::Progress::failed;
}

void StreamWork::wait_on_host() const {
  const StreamWork recorded = done != nullptr ? *this : work_of(stream);
  const c10::OptionalDeviceGuard guard(stream.device());
  cuda_codecs()->synchronize(recorded.done->eventId());
}

}  // namespace cinch::hooks
