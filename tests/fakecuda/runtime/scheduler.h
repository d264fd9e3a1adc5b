// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "api.h"

namespace fakecuda {

/// Runs the work of streams in an order that CUDA allows: each stream's items in order, and each
/// after the events that it waits for. The schedule chooses among these orders. Work runs inside
/// calls, on the calling thread, so a run can be repeated exactly.
///
/// All functions: @pre the global lock is held.

using Work = std::function<void()>;
using Ranges = std::vector<fakecuda_range>;

struct Stream;
struct Recording;
using RecordingPointer = std::shared_ptr<Recording>;

/// A point in a stream. It is passed when all work before it is done.
struct Point {
  Stream* stream = nullptr;
  bool passed = false;
  double milliseconds = 0;                ///< when it was passed
  int queries = 0;                        ///< how often it was queried while not passed
  std::uint64_t number = 0;               ///< its number among the stream's points
  std::shared_ptr<std::uint64_t> seen{};  ///< Stream::seen of its stream
  RecordingPointer recording;  ///< if its stream is captured; streams that wait for it join
};
using PointPointer = std::shared_ptr<Point>;

/// An item of a stream's queue: one of `work`, `pass` and `wait`.
struct Item {
  const char* what = "";
  Work work{};
  PointPointer pass{};
  PointPointer wait{};
  Ranges ranges{};
};

/// The work that a graph repeats, in an order that its dependencies allow.
struct Recording {
  std::uint64_t number = 0;
  Stream* origin = nullptr;
  std::vector<Item> items;
};

struct Stream {
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  bool is_default = false;
  bool held = false;
  bool destroyed = false;
  std::deque<Item> items;
  std::uint64_t points = 0;
  /// Number of the last point that the host has waited for, so that it knows it is passed.
  std::shared_ptr<std::uint64_t> seen = std::make_shared<std::uint64_t>(0);
  RecordingPointer recording;  ///< set while the stream is captured
};

/// The stream of a handle. A default handle gives the current device's default stream. A destroyed
/// stream's handle, which with CUDA may be anything, counts as a fault.
Stream& stream_of(const void* handle);
bool is_destroyed(const void* handle);
Stream& default_stream(int device);
void add_stream(Stream* stream);
/// Removes a stream after running its work.
void remove_stream(Stream* stream);

/// Enqueues work that uses the memory `ranges`. Work of a captured stream goes to the graph.
/// @pre `what` lives forever
void enqueue(Stream& stream, const char* what, Work work, Ranges ranges = {});

/// Makes a point after all work that the stream was given so far.
PointPointer mark(Stream& stream);
/// Makes all work that the stream is given from now on wait for the point.
void wait_for(Stream& stream, const PointPointer& point);

/// Runs all work of a stream (before a point, of a device), and the work that it waits for.
void finish(Stream& stream);
void finish(const PointPointer& point);
void finish_device(int device);
/// Notes that the host has waited for all work that the stream was given, or up to the point.
void saw(Stream& stream);
void saw(const Point& point);
/// Counts a query of a point that is not passed. The schedule may run some work.
void progress(const PointPointer& point);
/// Whether work that the stream is given now runs at once.
bool is_eager(const Stream& stream);

/// For a call that is not safe during a capture: ends, without a graph, the captures that forbid it
/// to the calling thread by CUDA's capture modes. @return whether there were any
bool ends_captures();

/// Records the work that the stream is given from now on, instead of running it.
void begin_recording(Stream& stream);
/// Ends the recording for all streams that take part. @return null when `stream` did not begin one
RecordingPointer end_recording(Stream& stream);
/// Enqueues the work that a graph recorded.
void replay(const Recording& recording, Stream& stream);

/// Milliseconds on the host's monotonic clock.
double now_milliseconds();

/// The events' delay: how many queries report "not ready" after the point is passed.
int event_delay();

}  // namespace fakecuda
