// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/streams.h"

#include <map>
#include <mutex>
#include <utility>

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "hooks/torch/process/cuda_plugin.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/device/stream_work.h"

namespace cinch::hooks {
namespace {

// A stream that is not PyTorch's has its CUDA handle for an id.
c10::StreamId id_of(const void* handle) {
  return static_cast<c10::StreamId>(reinterpret_cast<std::intptr_t>(handle));
}

c10::Stream make_stream(c10::Device device) {
  const c10::OptionalDeviceGuard guard(device);
  if (void* const handle = cuda_codecs()->make_stream(); handle != nullptr) {
    if (const auto* plugin = cuda_plugin(); plugin != nullptr) plugin->adopt_stream(handle);
    return c10::Stream::unpack3(id_of(handle), device.index(), device.type());
  }
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

}  // namespace

c10::Stream own_stream(Own which, c10::Device device) {
  static std::mutex mutex;
  static auto& streams = *new std::map<std::pair<c10::DeviceIndex, Own>, c10::Stream>;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(device.index(), which);
  const auto known = streams.find(key);
  if (known != streams.end()) return known->second;
  return streams.emplace(key, make_stream(device)).first->second;
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

bool is_capturing(c10::Device device) {
  return is_capturing(current_stream(device));
}

bool is_capturing(const c10::Stream& stream) {
  return cuda_codecs()->is_capturing(native(stream));
}

c10::Stream stand_in(const c10::Stream& stream) {
  const bool is_programs = stream.id() != 0 && stream.id() == id_of(stream.native_handle());
  return is_programs ? own_stream(Own::side, stream.device()) : stream;
}

c10::Stream lasting(const c10::Stream& stream) {
  const c10::Stream lasts = stand_in(stream);
  if (stream != lasts) work_of(stream).block(lasts);
  return lasts;
}

}  // namespace cinch::hooks
