// SPDX-License-Identifier: Apache-2.0
#include "scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include "calls.h"
#include "memory.h"
#include "say.h"
#include "settings.h"

namespace fakecuda {
namespace {

/// Queries after which an event's work runs anyway: a program that polls must see it happen.
constexpr int queries_until_done = 3;
/// Bounds the memory that enqueued closures take.
constexpr std::size_t most_pending = 200'000;

enum class Schedule : std::uint8_t { eager, lazy, random };

struct State {
  Schedule schedule = Schedule::eager;
  std::mt19937_64 random;
  int event_delay = settings().event_delay;
  std::size_t pending = 0;
  std::vector<Stream*> streams;
  Stream defaults[max_devices];

  State() {
    for (int device = 0; device < max_devices; ++device) {
      defaults[device].device = device;
      defaults[device].is_default = true;
      streams.push_back(&defaults[device]);
    }
    if (!set_schedule(settings().schedule)) {
      fault("FAKECUDA_SCHEDULE: \"%s\" is not eager, lazy or random:SEED", settings().schedule);
    }
  }
  bool set_schedule(const char* text) {
    if (std::strcmp(text, "eager") == 0) {
      schedule = Schedule::eager;
    } else if (std::strcmp(text, "lazy") == 0) {
      schedule = Schedule::lazy;
    } else if (std::strncmp(text, "random:", 7) == 0) {
      schedule = Schedule::random;
      random.seed(std::strtoull(text + 7, nullptr, 10));
    } else {
      return false;
    }
    return true;
  }
};
State& state() {
  static auto* s = new State;  // used by destructors of statics
  return *s;
}

bool runnable(const Stream& stream) {
  return !stream.items.empty() && (!stream.items.front().wait || stream.items.front().wait->passed);
}

/// Runs the first item. @pre runnable(stream)
void run_first(Stream& stream) {
  const Item item = std::move(stream.items.front());
  stream.items.pop_front();
  --state().pending;
  if (item.pass) {
    item.pass->passed = true;
    item.pass->milliseconds = now_milliseconds();
  }
  if (!item.work) return;
  for (const fakecuda_range& range : item.ranges) {
    if (accessible(range.memory, range.bytes)) continue;
    fault("%s uses memory that is not mapped: %p, %zu bytes", item.what, range.memory, range.bytes);
    break_context(cudaErrorIllegalAddress);
    return;
  }
  item.work();
}

void finish_first(Stream& stream) {
  if (stream.items.front().wait) finish(PointPointer(stream.items.front().wait));
  if (!stream.items.empty()) run_first(stream);
}

/// Runs the first item of a random stream. @return whether there was one
bool run_random() {
  State& s = state();
  std::vector<Stream*> ready;
  for (Stream* stream : s.streams) {
    if (!stream->held && runnable(*stream)) ready.push_back(stream);
  }
  if (ready.empty()) return false;
  run_first(*ready[s.random() % ready.size()]);
  return true;
}

/// Runs the work that the schedule wants to run after `stream` was given an item.
void go_on(Stream& stream) {
  State& s = state();
  if (s.pending > most_pending) finish(stream);
  switch (s.schedule) {
    case Schedule::eager:
      // Streams that wait for work of a held stream are not runnable.
      if (!stream.held) {
        while (runnable(stream)) run_first(stream);
      }
      break;
    case Schedule::lazy:
      break;
    case Schedule::random:
      for (std::uint64_t n = s.random() % 4; n != 0; --n) run_random();
      break;
  }
}

/// In the eager schedule, runs streams that waited for a held stream whose work has now run.
void settle() {
  if (state().schedule != Schedule::eager) return;
  bool any = true;
  while (any) {
    any = false;
    for (Stream* stream : state().streams) {
      while (!stream->held && runnable(*stream)) {
        run_first(*stream);
        any = true;
      }
    }
  }
}

void push(Stream& stream, Item item) {
  if (stream.recording) {
    if (item.work) stream.recording->items.push_back(std::move(item));
    return;
  }
  ++state().pending;
  stream.items.push_back(std::move(item));
}

/// The default stream and those that were not created as non-blocking wait for each other.
void order_with_default(Stream& stream) {
  if (stream.recording) return;
  const auto follow = [&](Stream& other) {
    if (other.items.empty() || other.recording || &other == &stream) return;
    const PointPointer point = mark(other);
    push(stream, {.what = "the default stream's order", .wait = point});
  };
  if (stream.is_default) {
    for (Stream* other : std::vector<Stream*>(state().streams)) {
      if (other->device == stream.device && (other->flags & cudaStreamNonBlocking) == 0) {
        follow(*other);
      }
    }
  } else if ((stream.flags & cudaStreamNonBlocking) == 0) {
    follow(default_stream(stream.device));
  }
}

}  // namespace

Stream& default_stream(int device) {
  return state().defaults[device];
}

void add_stream(Stream* stream) {
  state().streams.push_back(stream);
}

void remove_stream(Stream* stream) {
  finish(*stream);
  std::erase(state().streams, stream);
}

void enqueue(Stream& stream, const char* what, Work work, Ranges ranges) {
  order_with_default(stream);
  push(stream, {.what = what, .work = std::move(work), .ranges = std::move(ranges)});
  go_on(stream);
}

PointPointer mark(Stream& stream) {
  auto point = std::make_shared<Point>();
  point->stream = &stream;
  point->recording = stream.recording;
  point->number = ++stream.points;
  point->seen = stream.seen;
  if (stream.items.empty() || stream.recording) {
    point->passed = true;
    point->milliseconds = now_milliseconds();
    return point;
  }
  push(stream, {.what = "an event", .pass = point});
  go_on(stream);
  return point;
}

void wait_for(Stream& stream, const PointPointer& point) {
  if (point->recording) {
    const bool goes_on = point->recording->origin->recording == point->recording;
    if (goes_on && !stream.recording) stream.recording = point->recording;
    return;
  }
  if (point->passed || point->stream == &stream) return;
  push(stream, {.what = "a wait", .wait = point});
  go_on(stream);
}

void finish(Stream& stream) {
  while (!stream.items.empty()) finish_first(stream);
  settle();
}

void finish(const PointPointer& point) {
  while (!point->passed && !point->stream->items.empty()) finish_first(*point->stream);
  settle();
}

void finish_device(int device) {
  for (Stream* stream : std::vector<Stream*>(state().streams)) {
    if (stream->device != device) continue;
    finish(*stream);
    saw(*stream);
  }
}

void saw(Stream& stream) {
  *stream.seen = stream.points;
}

void saw(const Point& point) {
  *point.seen = std::max(*point.seen, point.number);
}

void progress(const PointPointer& point) {
  // In the eager schedule only work that depends on held streams has not run.
  if (point->passed || state().schedule == Schedule::eager) return;
  if (++point->queries > queries_until_done && !point->stream->held) {
    finish(point);
    point->queries = 0;
    return;
  }
  if (state().schedule == Schedule::random) {
    for (std::uint64_t n = state().random() % 4; n != 0; --n) run_random();
  }
}

bool is_eager(const Stream& stream) {
  return state().schedule == Schedule::eager && !stream.held && stream.items.empty() &&
         !stream.recording;
}

void begin_recording(Stream& stream) {
  static std::uint64_t number = 0;
  stream.recording = std::make_shared<Recording>();
  stream.recording->number = ++number;
  stream.recording->origin = &stream;
}

RecordingPointer end_recording(Stream& stream) {
  RecordingPointer recording = stream.recording;
  if (!recording || recording->origin != &stream) return nullptr;
  for (Stream* other : state().streams) {
    if (other->recording == recording) other->recording = nullptr;
  }
  return recording;
}

void replay(const Recording& recording, Stream& stream) {
  for (const Item& item : recording.items) enqueue(stream, item.what, item.work, item.ranges);
}

double now_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

int event_delay() {
  return state().event_delay;
}

}  // namespace fakecuda

using namespace fakecuda;

namespace {

/// Work that came through the C interface.
class Foreign {
 public:
  Foreign(void (*run)(void*), void (*destroy)(void*), void* context)
      : run_(run), destroy_(destroy), context_(context) {}
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  ~Foreign() { destroy_(context_); }
  void operator()() const { run_(context_); }

 private:
  void (*run_)(void*);
  void (*destroy_)(void*);
  void* context_;
};

}  // namespace

FAKECUDA_API int fakecuda_schedule(const char* schedule) {
  const Guard guard(global_lock());
  for (Stream* stream : std::vector<Stream*>(state().streams)) finish(*stream);
  return state().set_schedule(schedule) ? 0 : -1;
}
FAKECUDA_API void fakecuda_set_event_delay(int queries) {
  const Guard guard(global_lock());
  state().event_delay = queries;
}
FAKECUDA_API void fakecuda_hold(void* stream) {
  const Guard guard(global_lock());
  stream_of(stream).held = true;
}
FAKECUDA_API void fakecuda_release(void* stream) {
  const Guard guard(global_lock());
  stream_of(stream).held = false;
  finish(stream_of(stream));
}
FAKECUDA_API std::size_t fakecuda_step(void* handle, std::size_t items) {
  const Guard guard(global_lock());
  Stream& stream = stream_of(handle);
  std::size_t done = 0;
  for (; done < items && !stream.items.empty(); ++done) finish_first(stream);
  return done;
}
FAKECUDA_API std::size_t fakecuda_pending() {
  const Guard guard(global_lock());
  return state().pending;
}
FAKECUDA_API void fakecuda_poison_async(void* memory, std::size_t bytes, int device, void* stream) {
  const Guard guard(global_lock());
  if (is_destroyed(stream)) return poison(memory, bytes);  // it has no more work
  Stream& of_memory = stream == nullptr ? default_stream(device) : stream_of(stream);
  enqueue(of_memory, "poison", [=] { poison(memory, bytes); }, {{memory, bytes}});
}
FAKECUDA_API void fakecuda_enqueue(void* stream, const char* what, void (*run)(void*),
                                   void (*destroy)(void*), void* context,
                                   const fakecuda_range* ranges, std::size_t range_count) {
  const Guard guard(global_lock());
  auto work = std::make_shared<Foreign>(run, destroy, context);
  enqueue(stream_of(stream), what, [work] { (*work)(); }, {ranges, ranges + range_count});
}
FAKECUDA_API int fakecuda_is_eager(void* stream) {
  const Guard guard(global_lock());
  return is_eager(stream_of(stream)) ? 1 : 0;
}
FAKECUDA_API int fakecuda_is_capturing(void* stream) {
  const Guard guard(global_lock());
  return stream_of(stream).recording ? 1 : 0;
}
FAKECUDA_API void fakecuda_finish(void* stream) {
  const Guard guard(global_lock());
  finish(stream_of(stream));
}
