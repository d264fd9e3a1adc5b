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

/// Work of streams, done in an order that CUDA allows: each stream's in order, and after the events
/// that it waits for. Which of those orders, the schedule says. Nothing happens behind the caller's
/// back: work is done inside calls, by the calling thread, so a run can be repeated.
///
/// All functions: @pre the global lock is held.

using Work = std::function<void()>;
using Ranges = std::vector<fakecuda_range>;

struct Stream;
struct Recording;
using RecordingPointer = std::shared_ptr<Recording>;

/// A point in a stream that is passed when all work before it is done.
struct Point {
  Stream* stream = nullptr;
  bool passed = false;
  double milliseconds = 0;                ///< when it was passed
  int queries = 0;                        ///< how often somebody asked while it was not passed
  std::uint64_t number = 0;               ///< among the stream's
  std::shared_ptr<std::uint64_t> seen{};  ///< the stream's
  RecordingPointer recording;  ///< of a captured stream: who waits for it is captured too
};
using PointPointer = std::shared_ptr<Point>;

/// What a stream has to do: one of the three.
struct Item {
  const char* what = "";
  Work work{};
  PointPointer pass{};
  PointPointer wait{};
  Ranges ranges{};
};

/// Work that a graph repeats, in an order that its dependencies allow.
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
  std::deque<Item> items;
  std::uint64_t points = 0;
  /// The last point of which the host knows that it is passed: it waited for it.
  std::shared_ptr<std::uint64_t> seen = std::make_shared<std::uint64_t>(0);
  RecordingPointer recording;  ///< while captured
};

/// A stream by its handle; the default stream's is the current device's.
Stream& stream_of(const void* handle);
Stream& default_stream(int device);
void add_stream(Stream* stream);
/// Does its work first.
void remove_stream(Stream* stream);

/// Gives a stream work that uses `ranges`; work of captured streams goes to the graph. `what`
/// lasts.
void enqueue(Stream& stream, const char* what, Work work, Ranges ranges = {});

/// A point after all that the stream was given so far.
PointPointer mark(Stream& stream);
/// What the stream is given from now on waits for the point.
void wait_for(Stream& stream, const PointPointer& point);

/// Does all that a stream has to do, and what that waits for.
void finish(Stream& stream);
void finish(const PointPointer& point);
void finish_device(int device);
/// The host has waited for all that the stream was given, or up to the point.
void saw(Stream& stream);
void saw(const Point& point);
/// One query of a point that is not passed: the schedule may do some work.
void progress(const PointPointer& point);
/// Whether the work that a stream is given is done at once.
bool is_eager(const Stream& stream);

/// A call that is not safe during a capture: those under way that forbid it to the calling thread
/// (by CUDA's capture modes) end without a graph. @return whether there were any
bool ends_captures();

/// Records what the stream is given from now on, instead of doing it.
void begin_recording(Stream& stream);
/// Ends it for the stream and all that joined. @return null when `stream` didn't begin one
RecordingPointer end_recording(Stream& stream);
/// Gives the stream what a graph recorded.
void replay(const Recording& recording, Stream& stream);

/// Milliseconds on a clock of the fake's own.
double now_milliseconds();

/// The events' delay: queries that say "not ready" of a point that is passed.
int event_delay();

}  // namespace fakecuda
