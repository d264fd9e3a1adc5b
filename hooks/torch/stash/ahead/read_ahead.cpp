// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/ahead/read_ahead.h"

#include <algorithm>

#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {
namespace {

// How many entries one read may have decoded ahead.
constexpr std::size_t most_decodes = 4;

// Whether `bytes` more may be decoded ahead. One entry may be larger than all that is allowed: it
// must not wait until nothing else is decoded ahead, so only a quarter of that keeps it out.
bool may_decode(std::uint64_t decoded, std::uint64_t bytes, std::uint64_t most) {
  return decoded == 0 || decoded < most / 4 || decoded + bytes <= most;
}

// How many reads ahead one read looks for entries to fetch, and the least limit of fetched bytes.
// Fetching looks further ahead than decoding, since a copy takes longer.
constexpr std::size_t most_looked_at = 256;
constexpr std::uint64_t least_fetched = std::uint64_t{64} << 20;

}  // namespace

void ReadAhead::begin_growth(bool decodes, std::uint32_t first_id, std::uint64_t step) {
  const bool on = decodes || offloads_;
  on_.store(on, std::memory_order_relaxed);
  if (!on) return;
  // Devices may have room again.
  has_room_ = true;
  most_fetched_ = std::min(unlimited, most_fetched_ + most_fetched_ / 16 + 1);
  first_id_ = first_id;
  entries_.clear();
  order_.begin_growth(step);
}

void ReadAhead::make_room() {
  if (is_on()) make_room_for_one(entries_);
}

void ReadAhead::add(Entry& entry) noexcept {
  if (is_on()) entries_.push_back(&entry);
}

void ReadAhead::remove(Entry& entry) noexcept {
  forget(entry);
  const std::uint32_t position = entry.id - first_id_;
  if (position < entries_.size() && entries_[position] == &entry) entries_[position] = nullptr;
}

void ReadAhead::forget(Entry& entry) noexcept {
  if (entry.ahead) decoded_bytes_ -= entry.raw_bytes;
  entry.ahead = false;
  if (entry.device == nullptr || !entry.device->fetched) return;
  fetched_bytes_ -= entry.offloaded_bytes();
  entry.device->fetched = false;
}

void ReadAhead::read(Entry& entry, const Use& use, std::uint64_t most_bytes, bool decodes,
                     bool is_offloaded, Choice& choice) {
  choice.decodes.reserve(most_decodes);
  forget(entry);
  if (entry.id - first_id_ >= entries_.size()) return;
  const ReadOrder::Read read = {entry.id - first_id_, use.reads};
  order_.add(read);
  const std::uint64_t most_fetched = std::min(std::max(most_bytes, least_fetched), most_fetched_);
  bool fetches = is_offloaded && has_room_;
  std::size_t looked_at = 0;
  for (const ReadOrder::Read& next : order_.after(read)) {
    if (!decodes && !fetches) break;
    if (++looked_at > most_looked_at || next.position >= entries_.size()) break;
    Entry* then = entries_[next.position];
    const bool is_read = then != nullptr && then->place == Entry::Place::settled &&
                         next.reads != codecs::Reads::nothing;
    if (!is_read) continue;
    const bool fits = has_room_ || then->device == nullptr;
    if (decodes && fits && then->encoded_bytes != 0 && !then->ahead) {
      decodes = choice.decodes.size() < most_decodes &&
                may_decode(decoded_bytes_, then->raw_bytes, most_bytes);
      if (decodes) {
        then->ahead = true;
        decoded_bytes_ += then->raw_bytes;
        ++then->holders;
        choice.decodes.emplace_back(then, next.reads);
        continue;
      }
    }
    const std::size_t away = then->offloaded_bytes();
    if (fetches && away != 0 && !then->device->fetched && !then->ahead) {
      fetches = fetched_bytes_ == 0 || fetched_bytes_ + away <= most_fetched;
      if (!fetches) continue;
      make_room_for_one(choice.fetches);
      then->device->fetched = true;
      fetched_bytes_ += away;
      ++then->holders;
      choice.fetches.push_back(then);
    }
  }
}

std::vector<Entry*> ReadAhead::take_all(int device) {
  std::vector<Entry*> taken;
  for (Entry* entry : entries_) {
    if (entry == nullptr || entry->device_index() != device) continue;
    if (entry->ahead || entry->device->fetched) taken.push_back(entry);
  }
  if (taken.empty()) return taken;
  for (Entry* entry : taken) ++entry->holders;
  if (fetched_bytes_ != 0) most_fetched_ = fetched_bytes_ / 2;
  has_room_ = false;
  return taken;
}

}  // namespace cinch::hooks
