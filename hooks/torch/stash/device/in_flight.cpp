// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/in_flight.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace cinch::hooks {
namespace {

// From so many works on, finished ones are forgotten even if there is room. Else a limit that is
// never reached would keep their events for ever.
constexpr std::size_t few_works = 64;

}  // namespace

// pre: mutex_ is held
void InFlight::forget_done(Device& device) noexcept {
  while (!device.works.empty() && device.works.front().moment->happened()) {
    device.bytes -= device.works.front().bytes;
    device.works.pop_front();
  }
}

// pre: mutex_ is held
bool InFlight::fits(Device& device, std::size_t bytes, std::uint64_t most) noexcept {
  const auto now = [&] {
    return device.bytes == 0 || (bytes <= most && device.bytes <= most - bytes);
  };
  if (!now() || device.works.size() >= few_works) forget_done(device);
  return now();
}

void InFlight::look(int index) {
  const std::lock_guard lock(mutex_);
  forget_done(devices_[index]);
}

bool InFlight::await_oldest(int index) {
  std::shared_ptr<const Moment> oldest;
  {
    const std::lock_guard lock(mutex_);
    const Device& device = devices_[index];
    if (device.works.empty()) return false;
    oldest = device.works.front().moment;
  }
  oldest->wait();
  look(index);
  return oldest->happened();
}

bool InFlight::has_room(int index, std::size_t bytes, std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  return fits(devices_[index], bytes, most);
}

bool InFlight::begin(int index, std::size_t bytes, std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  Device& device = devices_[index];
  if (!fits(device, bytes, most)) {
    ++device.figures.refused;
    return false;
  }
  device.bytes += bytes;
  device.figures.most_bytes = std::max(device.figures.most_bytes, device.bytes);
  return true;
}

void InFlight::enqueued(int index, std::size_t bytes,
                        std::shared_ptr<const Moment> moment) noexcept {
  const std::lock_guard lock(mutex_);
  Device& device = devices_[index];
  try {
    if (moment != nullptr) {
      device.works.push_back({std::move(moment), bytes});
      return;
    }
  } catch (const std::exception&) {
    // No memory to remember the moment: the bytes are released at once.
  }
  device.bytes -= bytes;
}

InFlight::Figures InFlight::figures(int index) const {
  const std::lock_guard lock(mutex_);
  const auto known = devices_.find(index);
  return known == devices_.end() ? Figures{} : known->second.figures;
}

}  // namespace cinch::hooks
