// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of the runtime and of the driver, which share handles.
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "calls.h"
#include "devices.h"
#include "say.h"
#include "scheduler.h"

namespace fakecuda {
namespace {

struct Event {
  unsigned flags = 0;
  PointPointer point{};
  int not_ready = 0;  // queries that still report it after the point is passed
};

Event& event_of(void* handle) {
  return *static_cast<Event*>(handle);
}

// Null, cudaStreamLegacy and cudaStreamPerThread.
bool is_default_handle(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle) <= 2;
}

cudaError_t create(void** handle, unsigned flags, int priority) {
  auto* stream = new Stream;
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = priority;
  add_stream(stream);
  *handle = stream;
  return cudaSuccess;
}

// The object stays, so that no other stream gets the handle.
cudaError_t destroy(void* handle) {
  static auto& destroyed = *new std::vector<std::unique_ptr<Stream>>;
  if (is_default_handle(handle)) return cudaErrorInvalidResourceHandle;
  Stream& stream = stream_of(handle);
  if (stream.destroyed) return cudaErrorContextIsDestroyed;
  destroyed.emplace_back(&stream);
  remove_stream(&stream);
  stream.destroyed = true;
  return cudaSuccess;
}

cudaError_t query(void* handle) {
  Stream& stream = stream_of(handle);
  if (stream.destroyed) return cudaErrorContextIsDestroyed;
  if (stream.recording) return cudaErrorStreamCaptureUnsupported;
  if (stream.items.empty()) return cudaSuccess;
  progress(mark(stream));
  return stream.items.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronize(void* handle, CallSite& site) {
  host_waits(site);
  Stream& stream = stream_of(handle);
  if (stream.destroyed) return cudaErrorContextIsDestroyed;
  if (stream.recording) return cudaErrorStreamCaptureUnsupported;
  if (stream.is_default) {
    finish_device(stream.device);
  } else {
    finish(stream);
    saw(stream);
  }
  return cudaSuccess;
}

cudaError_t create_event(void** handle, unsigned flags) {
  *handle = new Event{.flags = flags};
  return cudaSuccess;
}

cudaError_t destroy_event(void* handle) {
  delete &event_of(handle);
  return cudaSuccess;
}

cudaError_t record(void* handle, void* stream) {
  Event& event = event_of(handle);
  if (stream_of(stream).destroyed) return cudaErrorContextIsDestroyed;
  event.point = mark(stream_of(stream));
  event.not_ready = event_delay();
  return cudaSuccess;
}

cudaError_t query_event(void* handle) {
  Event& event = event_of(handle);
  if (!event.point || event.point->recording) return cudaSuccess;
  progress(event.point);
  if (!event.point->passed) return cudaErrorNotReady;
  if (event.not_ready == 0 || event.point->number <= *event.point->seen) return cudaSuccess;
  --event.not_ready;
  return cudaErrorNotReady;
}

cudaError_t synchronize_event(void* handle, CallSite& site) {
  host_waits(site);
  Event& event = event_of(handle);
  if (!event.point) return cudaSuccess;
  finish(event.point);
  saw(*event.point);
  return cudaSuccess;
}

cudaError_t wait(void* stream, void* handle) {
  const Event& event = event_of(handle);
  if (stream_of(stream).destroyed) return cudaErrorContextIsDestroyed;
  if (event.point) wait_for(stream_of(stream), event.point);
  return cudaSuccess;
}

// Another process can't wait for work in this process's queues. So the work before an event runs
// when the event is shared, and an opened event has always happened.
struct SharedEvent {
  std::uint64_t magic = 0x746e6576656b6166;
};
static_assert(sizeof(SharedEvent) <= sizeof(cudaIpcEventHandle_t));

cudaError_t share_event(cudaIpcEventHandle_t* out, void* handle) {
  const Event& event = event_of(handle);
  if ((event.flags & cudaEventInterprocess) == 0 || (event.flags & cudaEventDisableTiming) == 0) {
    return cudaErrorInvalidResourceHandle;
  }
  if (event.point) finish(event.point);
  std::memset(out, 0, sizeof *out);
  const SharedEvent shared;
  std::memcpy(out, &shared, sizeof shared);
  return cudaSuccess;
}

cudaError_t open_event(void** handle, const cudaIpcEventHandle_t& in) {
  SharedEvent shared;
  std::memcpy(static_cast<void*>(&shared), &in, sizeof shared);
  if (shared.magic != SharedEvent{}.magic) return cudaErrorInvalidResourceHandle;
  return create_event(handle, cudaEventDisableTiming | cudaEventInterprocess);
}

cudaError_t elapsed(float* milliseconds, void* begin, void* end) {
  const PointPointer& from = event_of(begin).point;
  const PointPointer& to = event_of(end).point;
  if (!from || !to) return cudaErrorInvalidResourceHandle;
  if ((event_of(begin).flags | event_of(end).flags) & cudaEventDisableTiming) {
    return cudaErrorInvalidResourceHandle;
  }
  if (!from->passed || !to->passed) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(to->milliseconds - from->milliseconds);
  return cudaSuccess;
}

cudaError_t call_on_host(void* stream, cudaHostFn_t function, void* data) {
  enqueue(stream_of(stream), "a host function", [=] { function(data); });
  return cudaSuccess;
}

// Errors of the runtime and the driver have the same numbers.
CUresult driver(cudaError_t error) {
  return static_cast<CUresult>(error);
}

}  // namespace

bool is_destroyed(const void* handle) {
  return !is_default_handle(handle) && static_cast<const Stream*>(handle)->destroyed;
}

Stream& stream_of(const void* handle) {
  if (is_default_handle(handle)) return default_stream(current_device());
  if (is_destroyed(handle)) fault("a stream is used that was destroyed: %p", handle);
  return *static_cast<Stream*>(const_cast<void*>(handle));
}

}  // namespace fakecuda

using namespace fakecuda;

// Functions of the runtime.

FAKECUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                      int priority) {
  FAKECUDA_RUNTIME(cudaStreamCreateWithPriority, "%u %d", flags, priority);
  may_synchronize(site);
  return returned(create(reinterpret_cast<void**>(stream), flags, priority));
}
FAKECUDA_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  FAKECUDA_RUNTIME(cudaStreamCreateWithFlags, "%u", flags);
  may_synchronize(site);
  return returned(create(reinterpret_cast<void**>(stream), flags, 0));
}
FAKECUDA_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  FAKECUDA_RUNTIME(cudaStreamCreate);
  may_synchronize(site);
  return returned(create(reinterpret_cast<void**>(stream), cudaStreamDefault, 0));
}
FAKECUDA_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaStreamDestroy, "%p", static_cast<void*>(stream));
  may_synchronize(site);
  return returned(destroy(stream));
}
FAKECUDA_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaStreamQuery, "%p", static_cast<void*>(stream));
  return returned(query(stream));
}
FAKECUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaStreamSynchronize, "%p", static_cast<void*>(stream));
  return returned(synchronize(stream, site));
}
FAKECUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  FAKECUDA_RUNTIME(cudaStreamWaitEvent, "%p %p", static_cast<void*>(stream),
                   static_cast<void*>(event));
  return returned(wait(stream, event));
}
FAKECUDA_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  FAKECUDA_RUNTIME(cudaStreamGetPriority);
  *priority = stream_of(stream).priority;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  FAKECUDA_RUNTIME(cudaStreamGetFlags);
  *flags = stream_of(stream).flags;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  FAKECUDA_RUNTIME(cudaStreamGetDevice);
  *device = stream_of(stream).device;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                            void* data) {
  FAKECUDA_RUNTIME(cudaLaunchHostFunc, "%p", static_cast<void*>(stream));
  may_synchronize(site);
  return returned(call_on_host(stream, function, data));
}
FAKECUDA_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                               void* data, unsigned) {
  FAKECUDA_RUNTIME(cudaStreamAddCallback, "%p", static_cast<void*>(stream));
  may_synchronize(site);
  enqueue(stream_of(stream), "a callback", [=] { callback(stream, cudaSuccess, data); });
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  FAKECUDA_RUNTIME(cudaEventCreateWithFlags, "%u", flags);
  return returned(create_event(reinterpret_cast<void**>(event), flags));
}
FAKECUDA_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  FAKECUDA_RUNTIME(cudaEventCreate);
  return returned(create_event(reinterpret_cast<void**>(event), cudaEventDefault));
}
FAKECUDA_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FAKECUDA_RUNTIME(cudaEventDestroy, "%p", static_cast<void*>(event));
  return returned(destroy_event(event));
}
FAKECUDA_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaEventRecord, "%p %p", static_cast<void*>(event), static_cast<void*>(stream));
  return returned(record(event, stream));
}
FAKECUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                  unsigned) {
  FAKECUDA_RUNTIME(cudaEventRecordWithFlags, "%p %p", static_cast<void*>(event),
                   static_cast<void*>(stream));
  return returned(record(event, stream));
}
FAKECUDA_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  FAKECUDA_RUNTIME(cudaEventQuery, "%p", static_cast<void*>(event));
  return returned(query_event(event));
}
FAKECUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAKECUDA_RUNTIME(cudaEventSynchronize, "%p", static_cast<void*>(event));
  return returned(synchronize_event(event, site));
}
FAKECUDA_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                              cudaEvent_t end) {
  FAKECUDA_RUNTIME(cudaEventElapsedTime);
  return returned(elapsed(milliseconds, begin, end));
}
FAKECUDA_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* out, cudaEvent_t event) {
  FAKECUDA_RUNTIME(cudaIpcGetEventHandle, "%p", static_cast<void*>(event));
  return returned(share_event(out, event));
}
FAKECUDA_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  FAKECUDA_RUNTIME(cudaIpcOpenEventHandle);
  return returned(open_event(reinterpret_cast<void**>(event), handle));
}

// Functions of the driver.

#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuEventElapsedTime

FAKECUDA_API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  FAKECUDA_DRIVER(cuStreamCreate, "%u", flags);
  may_synchronize(site);
  return driver(create(reinterpret_cast<void**>(stream), flags, 0));
}
FAKECUDA_API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  FAKECUDA_DRIVER(cuStreamCreateWithPriority, "%u %d", flags, priority);
  may_synchronize(site);
  return driver(create(reinterpret_cast<void**>(stream), flags, priority));
}
FAKECUDA_API CUresult cuStreamDestroy_v2(CUstream stream) {
  FAKECUDA_DRIVER(cuStreamDestroy_v2, "%p", static_cast<void*>(stream));
  may_synchronize(site);
  return driver(destroy(stream));
}
FAKECUDA_API CUresult cuStreamQuery(CUstream stream) {
  FAKECUDA_DRIVER(cuStreamQuery, "%p", static_cast<void*>(stream));
  return driver(query(stream));
}
FAKECUDA_API CUresult cuStreamSynchronize(CUstream stream) {
  FAKECUDA_DRIVER(cuStreamSynchronize, "%p", static_cast<void*>(stream));
  return driver(synchronize(stream, site));
}
FAKECUDA_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  FAKECUDA_DRIVER(cuStreamWaitEvent, "%p %p", static_cast<void*>(stream),
                  static_cast<void*>(event));
  return driver(wait(stream, event));
}
FAKECUDA_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  FAKECUDA_DRIVER(cuLaunchHostFunc, "%p", static_cast<void*>(stream));
  may_synchronize(site);
  return driver(call_on_host(stream, function, data));
}
FAKECUDA_API CUresult cuEventCreate(CUevent* event, unsigned flags) {
  FAKECUDA_DRIVER(cuEventCreate, "%u", flags);
  return driver(create_event(reinterpret_cast<void**>(event), flags));
}
FAKECUDA_API CUresult cuEventDestroy_v2(CUevent event) {
  FAKECUDA_DRIVER(cuEventDestroy_v2, "%p", static_cast<void*>(event));
  return driver(destroy_event(event));
}
FAKECUDA_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  FAKECUDA_DRIVER(cuEventRecord, "%p %p", static_cast<void*>(event), static_cast<void*>(stream));
  return driver(record(event, stream));
}
FAKECUDA_API CUresult cuEventQuery(CUevent event) {
  FAKECUDA_DRIVER(cuEventQuery, "%p", static_cast<void*>(event));
  return driver(query_event(event));
}
FAKECUDA_API CUresult cuEventSynchronize(CUevent event) {
  FAKECUDA_DRIVER(cuEventSynchronize, "%p", static_cast<void*>(event));
  return driver(synchronize_event(event, site));
}
