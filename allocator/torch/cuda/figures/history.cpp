// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/figures/history.h"

#include <algorithm>
#include <utility>

namespace cinch::allocator {
namespace {

struct Annotations {
  std::vector<std::string> compile_contexts;
  std::string user_metadata;
};
thread_local Annotations annotations;

}  // namespace

void History::record(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                     std::size_t most_entries, RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) {
  TORCH_CHECK(when == RecordContext::NEVER || recorder != nullptr);
  // Stacks are destroyed after the lock is released: that may call into Python.
  std::deque<TraceEntry> dropped;
  std::unordered_map<Address, Context> forgotten;
  const std::lock_guard lock(mutex_);
  recording_ = enabled;
  recorder_.store(enabled ? recorder : nullptr);
  when_.store(enabled ? when : RecordContext::NEVER);
  most_entries_ = std::max<std::size_t>(1, most_entries);
  skipped_.clear();
  for (const std::string& action : skipped) {
    skipped_.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  }
  if (!enabled || clear) {
    dropped.swap(entries_);
    if (!enabled) forgotten.swap(live_);
  }
  while (entries_.size() > most_entries_) {
    dropped.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  watched_.store(recording_ || !trackers_.empty());
}

void History::attach(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) {
  const std::lock_guard lock(mutex_);
  trackers_.push_back(std::move(tracker));
  watched_.store(true);
}

History::Context History::gather(RecordContext level) const {
  if (when_.load(std::memory_order_relaxed) < level) return nullptr;
  const auto recorder = recorder_.load();
  return recorder == nullptr ? nullptr : recorder();
}

void History::add(TraceEntry::Action action, c10::DeviceIndex device, Address address,
                  std::size_t bytes, Stream stream, Context context) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  TraceEntry entry(action, device, address, bytes, reinterpret_cast<void*>(stream),
                   c10::MempoolId_t{0, 0}, c10::getApproximateTime(),
                   when_.load() >= RecordContext::ALLOC ? std::move(context) : nullptr,
                   annotations.compile_contexts.empty() ? "" : annotations.compile_contexts.back(),
                   annotations.user_metadata);
  insert(std::move(entry));
}

#if CINCH_TORCH_MINOR >= 14
void History::annotate(c10::DeviceIndex device, Address address, std::size_t bytes,
                       std::string text) {
  insert(TraceEntry(TraceEntry::ANNOTATE, device, address, bytes, nullptr, c10::MempoolId_t{0, 0},
                    c10::getApproximateTime(), nullptr, "", std::move(text)));
}
#endif

void History::insert(TraceEntry entry) {
  std::deque<TraceEntry> dropped;
  const std::lock_guard lock(mutex_);
  for (const auto& tracker : trackers_) tracker(entry);
  if (!recording_ || std::ranges::find(skipped_, entry.action_) != skipped_.end()) return;
  if (entries_.size() == most_entries_) {
    dropped.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  entries_.push_back(std::move(entry));
}

void History::keep(Address address, Context context) {
  const std::lock_guard lock(mutex_);
  std::swap(live_[address], context);
}

History::Context History::forget(Address address) {
  const std::lock_guard lock(mutex_);
  const auto node = live_.extract(address);
  return node.empty() ? nullptr : std::move(node.mapped());
}

History::Context History::context_of(Address address) const {
  const std::lock_guard lock(mutex_);
  const auto at = live_.find(address);
  return at == live_.end() ? nullptr : at->second;
}

std::vector<History::TraceEntry> History::trace(c10::DeviceIndex device) {
  const auto nanoseconds = clock_.makeConverter();
  std::vector<TraceEntry> result;
  const std::lock_guard lock(mutex_);
  for (const TraceEntry& entry : entries_) {
    if (entry.device_ != device) continue;
    result.push_back(entry);
    result.back().time_.t_ = nanoseconds(entry.time_.approx_t_) / 1000;
  }
  return result;
}

void History::push_compile_context(std::string text) {
  annotations.compile_contexts.push_back(std::move(text));
}

void History::pop_compile_context() {
  if (!annotations.compile_contexts.empty()) annotations.compile_contexts.pop_back();
}

void History::set_user_metadata(std::string text) {
  annotations.user_metadata = std::move(text);
}

}  // namespace cinch::allocator
