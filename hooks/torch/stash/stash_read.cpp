// SPDX-License-Identifier: Apache-2.0
// How the stash gives backward what it reads.
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/gradient_probe.h"
#include "hooks/torch/stash/module_names.h"
#include "hooks/torch/stash/stash.h"
#include "policy/operand.h"

namespace cinch::hooks {
namespace {

/// A storage of the entry's size without memory, for who looks at its shape only.
c10::Storage nothing_on_device(const Entry& entry) {
  const c10::Device device = entry.device->saved_on.device();
  return storage_of(c10::DataPtr(nullptr, device), entry.raw_bytes);
}

bool reader_gets_values(const Use& use, Stash::Reader reader) {
  return reader == Stash::Reader::program || use.reads == codecs::Reads::values;
}

/// Whether backward reads less than values of what is saved there.
bool reads_less_than_values(const Site& site) {
  const SiteNames* names = site.names();
  return names != nullptr &&
         policy::operand_fact(names->op, names->operand).reads != codecs::Reads::values;
}

}  // namespace

c10::Storage Stash::restore(Entry& entry, const Use& use, Reader reader) {
  if (reader == Reader::program && reads_less_than_values(*use.site)) use.site->note_shown();
  const bool captured = entry.device != nullptr && is_capturing(entry.device->saved_on.device());
  if (captured) return restore_in_capture(entry, use);
  if (entry.device != nullptr) take_outcomes(entry.device_index());
  end_growth(&entry);
  GradientProbe* probe = current_probe();
  if (entry.device != nullptr) settle_put_off(entry);
  if (aside_) await_settled(entry);
  if (probe == nullptr && read_ahead_.is_on()) foresee(entry, use);
  if (entry.device == nullptr) return restore_on_host(entry, use, reader, probe);
  for (;;) {
    try {
      return restore_held(entry, use, reader, probe);
    } catch (const c10::OutOfMemoryError&) {
      // Asked from inside this entry's work the stash had nothing to give.
      if (make_room(entry.device_index(), entry.raw_bytes + entry.encoded_bytes) == 0) throw;
    }
  }
}

// For a graph, which may be replayed for as long as the entry lives: nothing is shared with work
// outside of it, and what it reads stays where it is.
c10::Storage Stash::restore_in_capture(Entry& entry, const Use& use) {
  const AtWork here;
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  {
    const std::lock_guard stash_lock(mutex_);  // `state`, beside it, is read under this one too
    entry.captured = true;
  }
  return entry.is_raw() ? entry.raw : decode_in_capture(entry, use.reads);
}

// Notes that `entry` is read for `probe`'s sake. What is asked of it and of `use` belongs to the
// stash's lock: another thread's forward may be planning the entry. pre: entry.mutex() is held
// @return whether that was all
bool Stash::note_read(GradientProbe& probe, Entry& entry, const Use& use) const {
  const std::lock_guard lock(mutex_);
  switch (probe.purpose) {
    case GradientProbe::Purpose::peek:
      probe.read.push_back(&entry);
      return true;
    case GradientProbe::Purpose::trial:
      if (entry.tried && use.reads == codecs::Reads::values) probe.read.push_back(&entry);
      break;
    case GradientProbe::Purpose::guard:
      if (entry.watched && entry.sample != nullptr) probe.read.push_back(&entry);
      break;
  }
  return false;
}

// What a probe is given in the values' place; nothing where it is given those.
// pre: entry.mutex() is held
c10::Storage Stash::restore_for_probe(GradientProbe& probe, Entry& entry, const Use& use) const {
  if (note_read(probe, entry, use)) {
    if (entry.device != nullptr) return nothing_on_device(entry);
    return storage_of(zero_pages(entry.raw_bytes), entry.raw_bytes);
  }
  if (probe.replaced == &entry && use.reads == codecs::Reads::values) return probe.replacement;
  if (probe.exact && entry.sample != nullptr) return entry.sample->exact;
  return {};
}

bool Stash::is_storage_of(Entry& entry, const c10::StorageImpl* storage) {
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  return entry.raw && entry.raw.unsafeGetStorageImpl() == storage;
}

// Of an entry of which only signs, or nothing, is held there are no values to show.
// pre: entry.mutex() is held, the entry is settled
codecs::Reads Stash::reads_of(const Entry& entry, const Use& use, Reader reader) {
  using enum codecs::Reads;
  if (entry.state == Entry::State::moved && use.reads != nothing) return values;
  if (reader == Reader::node) return use.reads;
  const bool holds_values = entry.state == Entry::State::moved ||
                            entry.state == Entry::State::derived ||
                            (entry.state == Entry::State::encoded &&
                             entry.plan().candidates[entry.candidate].codec->restores() == values);
  const SiteNames* names = use.site->names();
  const std::string op = names == nullptr ? "*" : names->op;
  TORCH_CHECK(
      holds_values, "cinch: the program reads a tensor that ", op, " saved, of which only ",
      use.reads == nothing ? "the shape" : "what its backward needs",
      " is held, not the values. Tensors that are saved there from now on keep them. To keep "
      "them from the beginning, add to the policy: \"rules\": [{\"match\": {\"op\": \"",
      op, "\"}, \"keep\": true}]");
  return values;
}

c10::Storage Stash::restore_held(Entry& entry, const Use& use, Reader reader,
                                 GradientProbe* probe) {
  const AtWork here;
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  if (probe != nullptr) {
    if (c10::Storage given = restore_for_probe(*probe, entry, use)) return given;
  }
  if (entry.state == Entry::State::pending) return entry.raw;
  const bool computed = entry.state == Entry::State::derived && reader_gets_values(use, reader);
  if (computed) return {};  // derive_values() has them
  if (!entry.row->looked_for.load(std::memory_order_relaxed)) note_module(*entry.row);
  if (entry.state == Entry::State::kept) return entry.raw;
  note_size(entry);
  if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
  const codecs::Reads reads = reads_of(entry, use, reader);
  auto& decoded = entry.decoded->alive[static_cast<std::size_t>(reads)];
  auto alive = decoded.lock();
  entry.decoded->ahead = {};
  if (alive) {
    c10::Storage storage(std::move(alive));
    if (entry.device != nullptr) hand_over(entry, storage, reads, current_stream(storage.device()));
    if (reader == Reader::program) entry.decoded->lent = storage;
    return storage;
  }
  if (entry.keeps_source() && !entry.plan().candidates[entry.candidate].approximates) {
    return entry.device->source;
  }
  c10::Storage storage = decode(entry, reads, torch_parallel_for);
  if (entry.device != nullptr) hand_over(entry, storage, reads, current_stream(storage.device()));
  decoded = weak(storage);
  if (reader == Reader::program) entry.decoded->lent = storage;
  if (reads == codecs::Reads::values) measure(entry, storage);
  return storage;
}

// Tells the entry's class what it took, when backward reads it first: by then it is encoded on
// either stream, and the next forward's entries have not been planned. pre: entry.mutex() is held
void Stash::note_size(Entry& entry) {
  if (entry.state != Entry::State::encoded) return;
  const std::lock_guard lock(mutex_);
  if (entry.sized) return;
  entry.sized = true;
  if_memory_allows([&] {
    if (entry.device != nullptr && entry.device->outcome != nullptr) {
      planner_->note_size(entry, entry.device->outcome);
      return;
    }
    const std::size_t exact = entry.device == nullptr ? 0 : entry.device->exact_bytes;
    planner_->note_size(entry, exact == 0 ? entry.encoded_bytes : exact);
  });
}

// pre: entry.mutex() is held, entry is encoded or dropped
c10::Storage Stash::decode(Entry& entry, codecs::Reads reads, codecs::ParallelFor parallel_for) {
  if (entry.device != nullptr) {
    if (needs_fetch(entry, reads)) statistics_.fetched(/*ahead=*/false);
    return decode_on_device(entry, reads, current_stream(entry.device->saved_on.device()));
  }
  const bool nothing = entry.state == Entry::State::dropped || reads == codecs::Reads::nothing;
  c10::DataPtr data = nothing ? zero_pages(entry.raw_bytes) : decoded_pool_.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to decode a saved tensor");
  if (!nothing) {
    const Plan::Candidate& candidate = held_by(entry);
    const Stopwatch watch;
    const codecs::Description what = described(candidate, entry);
    const bool decoded = candidate.codec->decode(
        what, {static_cast<const std::byte*>(entry.encoded.get()), entry.encoded_bytes}, data.get(),
        reads, parallel_for);
    TORCH_CHECK(decoded, "cinch: a saved tensor encoded by '", candidate.codec->name(),
                "' can't be decoded: there is no memory for that, or this is a defect of Cinch");
    const std::uint64_t nanoseconds = watch.nanoseconds();
    candidate.totals->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
    entry.row->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  return storage_of(std::move(data), entry.raw_bytes);
}

}  // namespace cinch::hooks
