// SPDX-License-Identifier: Apache-2.0
//
// Graphs made by capture: the work that captured streams are given is recorded, and each launch
// runs it in the same order. Nodes can't be inspected or changed.
#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "calls.h"
#include "scheduler.h"

using namespace fakecuda;

namespace {

RecordingPointer& recording_of(void* graph) {
  return *static_cast<RecordingPointer*>(graph);
}

/// A capture that has begun.
struct Capture {
  Stream* stream;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool ended = false;  // by a call that is not safe during a capture
};

std::vector<Capture>& captures() {
  static auto& all = *new std::vector<Capture>;
  return all;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

}  // namespace

bool fakecuda::ends_captures() {
  bool any = false;
  if (thread_mode == cudaStreamCaptureModeRelaxed) return any;
  for (Capture& capture : captures()) {
    const bool own = capture.thread == std::this_thread::get_id();
    const bool forbids = own ? capture.mode != cudaStreamCaptureModeRelaxed
                             : capture.mode == cudaStreamCaptureModeGlobal &&
                                   thread_mode == cudaStreamCaptureModeGlobal;
    capture.ended = capture.ended || forbids;
    any = any || forbids;
  }
  return any;
}

FAKECUDA_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  FAKECUDA_RUNTIME(cudaStreamBeginCapture, "%p", static_cast<void*>(stream));
  Stream& captured = stream_of(stream);
  if (captured.is_default) return returned(cudaErrorStreamCaptureUnsupported);
  if (captured.recording) return returned(cudaErrorIllegalState);
  begin_recording(captured);
  captures().push_back({&captured, mode, std::this_thread::get_id()});
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  FAKECUDA_RUNTIME(cudaStreamEndCapture, "%p", static_cast<void*>(stream));
  RecordingPointer recording = end_recording(stream_of(stream));
  if (!recording) return returned(cudaErrorIllegalState);
  const auto capture = std::ranges::find(captures(), &stream_of(stream), &Capture::stream);
  const bool ended = capture->ended;
  captures().erase(capture);
  if (ended) {
    *graph = nullptr;
    return returned(cudaErrorStreamCaptureInvalidated);
  }
  *graph = reinterpret_cast<cudaGraph_t>(new RecordingPointer(std::move(recording)));
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                               cudaStreamCaptureStatus* status) {
  FAKECUDA_QUERY(cudaStreamIsCapturing);
  *status =
      stream_of(stream).recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                                  cudaStreamCaptureStatus* status,
                                                  unsigned long long* number, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** nodes,
                                                  const cudaGraphEdgeData** edges,
                                                  std::size_t* count) {
  FAKECUDA_QUERY(cudaStreamGetCaptureInfo);
  const RecordingPointer& recording = stream_of(stream).recording;
  *status = recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (number != nullptr) *number = recording ? recording->number : 0;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(recording.get());
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  FAKECUDA_QUERY(cudaThreadExchangeStreamCaptureMode);
  std::swap(thread_mode, *mode);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable,
                                                       cudaGraph_t graph, unsigned long long) {
  FAKECUDA_RUNTIME(cudaGraphInstantiateWithFlags);
  *executable = reinterpret_cast<cudaGraphExec_t>(new RecordingPointer(recording_of(graph)));
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                              unsigned long long) {
  FAKECUDA_RUNTIME(cudaGraphInstantiate);
  *executable = reinterpret_cast<cudaGraphExec_t>(new RecordingPointer(recording_of(graph)));
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaGraphLaunch, "%p", static_cast<void*>(stream));
  replay(*recording_of(executable), stream_of(stream));
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  FAKECUDA_RUNTIME(cudaGraphDestroy);
  delete &recording_of(graph);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  FAKECUDA_RUNTIME(cudaGraphExecDestroy);
  delete &recording_of(executable);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*,
                                           std::size_t* count) {
  FAKECUDA_RUNTIME(cudaGraphGetNodes);
  // Torch only checks whether there are any nodes, and warns if not.
  *count = recording_of(graph)->items.size();
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*,
                                                      cudaGraphEdgeData*, std::size_t* count) {
  FAKECUDA_RUNTIME(cudaGraphNodeGetDependencies);
  *count = 0;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) {
  FAKECUDA_RUNTIME(cudaGraphDebugDotPrint);
  return cudaSuccess;
}
