// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry_reader.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/module_names.h"

namespace cinch::hooks {
namespace {

// Backward runs nodes in the reverse order of their numbers. A source is read again soon if so few
// lie between the node that reads what is computed from it and its own.
constexpr std::uint32_t soon = 8;

bool reader_gets_values(const Use& use, Reader reader) {
  return reader == Reader::program || use.reads == codecs::Reads::values;
}

// Whether the probe gets what the entry's sample holds. A run for the guard gets that of watched
// entries alone: its errors are theirs. pre: entry.mutex() is held
bool gets_exact(const GradientProbe& probe, const Entry& entry) {
  if (!probe.exact || entry.sample == nullptr) return false;
  return probe.purpose != GradientProbe::Purpose::guard || entry.compared ||
         std::ranges::find(probe.read, &entry) != probe.read.end();
}

bool is_derived(const Entry& entry) {
  return entry.state == Entry::State::derived;
}

// What to decode for this reader. Throws when the program wants values of an entry that holds none.
// pre: entry.mutex() is held, the entry is settled
codecs::Reads reads_of(const Entry& entry, const Use& use, Reader reader) {
  using enum codecs::Reads;
  if (entry.state == Entry::State::moved && use.reads != nothing) return values;
  if (reader == Reader::node) return use.reads;
  const bool holds_values = entry.state == Entry::State::moved || is_derived(entry) ||
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

}  // namespace

bool holds_raw(const Entry& entry, const c10::Storage& storage) {
  const EntryLock lock(entry);
  return entry.raw && entry.raw.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
}

c10::Storage EntryReader::read(Entry& entry, const Use& use, Reader reader, GradientProbe* probe) {
  side_.await_settled(entry);
  const bool may_compute = entry.recipe != nullptr && reader_gets_values(use, reader);
  const bool reads_signs =
      entry.recipe != nullptr && reader == Reader::node && use.reads == codecs::Reads::sign;
  for (;;) {
    // Repeats if another thread settles the entry between the two calls.
    if (may_compute) {
      if (c10::Storage computed = read_derived(entry, use, reader, probe)) return computed;
      if (c10::Storage computed = read_followed(entry, use, probe)) return computed;
    }
    if (reads_signs) {
      if (c10::Storage signs = read_signs_of_source(entry, use, probe)) return signs;
    }
    if (c10::Storage held = read_held(entry, use, reader, probe)) return held;
  }
}

bool EntryReader::gave(const Entry& entry, const c10::Storage& storage) const {
  const EntryLock lock(entry);
  if (entry.raw) return entry.raw.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
  if (entry.decoded == nullptr) return false;
  const auto& alive = entry.decoded->alive[static_cast<std::size_t>(codecs::Reads::values)];
  return alive.lock().get() == storage.unsafeGetStorageImpl();
}

c10::Storage EntryReader::computed(Entry& entry) {
  if (entry.recipe == nullptr) return {};
  c10::Storage values = read_derived(entry, Use(), Reader::node, nullptr);
  return values && !entry.recipe->approximates ? values : c10::Storage();
}

// Notes in `probe` that `entry` is read. Takes the stash's lock, which guards the fields that it
// reads: another thread's forward may be planning the entry. pre: entry.mutex() is held
// @return whether the probe needs no values
bool EntryReader::note_read(GradientProbe& probe, Entry& entry, const Use& use) const {
  const std::lock_guard lock(lists_.mutex);
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

// The storage that a probe gets instead of the entry's ordinary one; null where it gets that.
// pre: entry.mutex() is held
c10::Storage EntryReader::for_probe(GradientProbe& probe, Entry& entry, const Use& use) {
  if (note_read(probe, entry, use)) return holdings_.of(entry).without_values(entry);
  if (probe.replaced == &entry && use.reads == codecs::Reads::values) return probe.replacement;
  if (reads_part(&probe, entry, use)) return probe.mixed_values(entry);
  if (gets_exact(probe, entry) && !entry.sample->part) return entry.sample->exact;
  return {};
}

// Whether the probe is to get exact values of which only a part is held.
// pre: entry.mutex() is held
bool EntryReader::reads_part(const GradientProbe* probe, const Entry& entry,
                             const Use& use) noexcept {
  return probe != nullptr && entry.sample != nullptr && entry.sample->part &&
         use.reads == codecs::Reads::values && gets_exact(*probe, entry);
}

// `values` with the part of them that is held exactly. pre: reads_part(), nobody shares `values`
c10::Storage EntryReader::with_part(GradientProbe& probe, const Entry& entry, c10::Storage values) {
  const GuardSample& sample = *entry.sample;
  const auto* part = static_cast<const std::byte*>(sample.exact.data());
  sample.part->put({part, sample.exact.nbytes()}, values.mutable_data());
  probe.mixed.push_back({&entry, values, sample.share()});
  return values;
}

// Reads an entry that is raw or decoded from its own bytes; null where values have to be computed.
c10::Storage EntryReader::read_held(Entry& entry, const Use& use, Reader reader,
                                    GradientProbe* probe) {
  const EntryWork work(entry);
  if (probe != nullptr) {
    if (c10::Storage given = for_probe(*probe, entry, use)) return given;
  }
  if (entry.state == Entry::State::pending) return entry.raw;
  if (is_derived(entry) && reader_gets_values(use, reader)) return {};
  if (!entry.row->looked_for.load(std::memory_order_relaxed)) note_module(*entry.row);
  if (entry.state == Entry::State::kept) return entry.raw;
  note_size(entry);
  const codecs::Reads reads = reads_of(entry, use, reader);
  Holding& holding = holdings_.of(entry);
  if (reads_part(probe, entry, use)) return with_part(*probe, entry, holding.decode(entry, reads));
  c10::Storage storage = decoded(entry, reads, reader);
  entry.decoded->ahead = {};
  if (storage) {
    holding.hand_over(entry, storage, reads);
    return storage;
  }
  if (entry.keeps_source() && !entry.plan().candidates[entry.candidate].approximates) {
    return entry.source();
  }
  storage = holding.decode(entry, reads);
  holding.hand_over(entry, storage, reads);
  keep_decoded(entry, reads, reader, storage);
  return storage;
}

// Computes an entry's values from those of its sources. pre: the entry's lock is not held
c10::Storage EntryReader::compute(Entry& entry, const Use& use, GradientProbe* probe) {
  const auto read_source = [&](Entry& source, const Use& as) {
    c10::Storage given = read(source, as, Reader::node, probe);
    holdings_.of(entry).lend(source, given);
    if (probe == nullptr) keep_if_read_soon(source, use, given);
    return given;
  };
  return derivation_.compute(entry, read_source, probe == nullptr ? Bias::subtracted : Bias::kept);
}

// The log-sum-exp of operands that are approximated by now, of an entry that is raw; null for
// others. Nobody else reads it.
c10::Storage EntryReader::read_followed(Entry& entry, const Use& use, GradientProbe* probe) {
  if (!derivation_.keep_sources(entry)) return {};
  for (const Recipe::Source& source : entry.recipe->sources()) side_.await_settled(*source.entry);
  if (!derivation_.has_to_follow(entry)) return {};
  {
    const EntryWork work(entry);
    if (entry.state != Entry::State::pending) return {};
    if (probe != nullptr) {
      if (c10::Storage given = for_probe(*probe, entry, use)) return given;
    }
  }
  return compute(entry, use, probe);
}

// The values of a derived entry; null where it is held otherwise. Reads sources without the entry's
// own lock.
c10::Storage EntryReader::read_derived(Entry& entry, const Use& use, Reader reader,
                                       GradientProbe* probe) {
  using enum codecs::Reads;
  Holding& holding = holdings_.of(entry);
  bool takes_part = false;
  {
    const EntryWork work(entry);
    if (!is_derived(entry)) return {};
    if (probe != nullptr) {
      if (c10::Storage given = for_probe(*probe, entry, use)) return given;
    }
    if (!entry.row->looked_for.load(std::memory_order_relaxed)) note_module(*entry.row);
    takes_part = reads_part(probe, entry, use);
    c10::Storage known = takes_part ? c10::Storage() : decoded(entry, values, reader);
    if (known) {
      entry.decoded->ahead = {};
      holding.hand_over(entry, known, values);
      return known;
    }
  }
  c10::Storage storage = compute(entry, use, probe);
  if (probe != nullptr && !takes_part) return storage;  // computed from probed sources: not shared
  const EntryWork work(entry);
  if (takes_part) return with_part(*probe, entry, std::move(storage));
  if (c10::Storage known = decoded(entry, values, reader)) {
    holding.hand_over(entry, known, values);
    return known;
  }
  holding.computed(entry);
  keep_decoded(entry, values, reader, storage);
  const auto is_another = [&](const Use& each) { return &each != &use; };
  if (entry.recipe->is_attention() && has_reader(entry, is_another)) entry.decoded->ahead = storage;
  return storage;
}

// The signs of a derived entry that are a part of its source's codes; null where it is held
// otherwise. Reads the source without the entry's own lock.
c10::Storage EntryReader::read_signs_of_source(Entry& entry, const Use& use, GradientProbe* probe) {
  {
    const EntryWork work(entry);
    if (!is_derived(entry) || !entry.recipe->signs_in_source) return {};
    if (probe != nullptr) {
      if (c10::Storage given = for_probe(*probe, entry, use)) return given;
    }
    if (!entry.row->looked_for.load(std::memory_order_relaxed)) note_module(*entry.row);
  }
  // Not for the probe: what it would get in place of the source has other signs.
  Use as;
  as.reads = codecs::Reads::sign;
  return read(*entry.recipe->sources()[0].entry, as, Reader::node, nullptr);
}

// Whether a node of which `is_meant(use)` holds is to read values. pre: entry.mutex() is held
template <typename IsMeant>
bool EntryReader::has_reader(const Entry& entry, const IsMeant& is_meant) const {
  const std::lock_guard lock(lists_.mutex);
  for (const Use* each = entry.first_use; each != nullptr; each = each->next) {
    if (!each->is_recipes && each->reads == codecs::Reads::values && is_meant(*each)) return true;
  }
  return false;
}

// Keeps the values of a source, which the node of `by` reads through a recipe, for the source's own
// node if that runs soon. Not what is decoded to approximations on the host: that is done fast, and
// such a stash is so small that what is decoded counts at the peak.
void EntryReader::keep_if_read_soon(Entry& source, const Use& by, const c10::Storage& values) {
  const EntryWork work(source);
  // Another thread may have settled it since it was read, when nothing was decoded.
  if (source.decoded == nullptr) return;
  if (source.state == Entry::State::encoded) {
    const bool approximates = source.plan().candidates[source.candidate].approximates;
    if (source.device == nullptr && approximates) return;
  } else if (!is_derived(source)) {
    return;
  }
  const auto runs_soon = [&](const Use& use) { return by.sequence - use.sequence <= soon; };
  if (has_reader(source, runs_soon)) source.decoded->ahead = values;
}

// The storage decoded before, if somebody still holds it; else null. pre: entry.mutex() is held
c10::Storage EntryReader::decoded(Entry& entry, codecs::Reads reads, Reader reader) {
  if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
  auto alive = entry.decoded->alive[static_cast<std::size_t>(reads)].lock();
  if (!alive) return {};
  c10::Storage storage(std::move(alive));
  if (reader == Reader::program) entry.decoded->lent = storage;
  return storage;
}

// Shares `storage` with later readers, and measures its error for the guard.
// pre: entry.mutex() is held, decoded() was called
void EntryReader::keep_decoded(Entry& entry, codecs::Reads reads, Reader reader,
                               const c10::Storage& storage) {
  entry.decoded->alive[static_cast<std::size_t>(reads)] = weak(storage);
  if (reader == Reader::program) entry.decoded->lent = storage;
  if (reads != codecs::Reads::values || !GuardLooks::wants_error(entry)) return;
  if (const auto error = holdings_.of(entry).error_of(entry, storage)) {
    looks_.values_measured(entry, *error);
  }
}

// Tells the entry's class its encoded size, at the first read. By then the entry is encoded,
// whatever the stream, and the next forward's entries aren't planned. pre: entry.mutex() is held
void EntryReader::note_size(Entry& entry) {
  if (entry.state != Entry::State::encoded) return;
  const std::lock_guard lock(lists_.mutex);
  if (entry.sized) return;
  entry.sized = true;
  if_memory_allows([&] { holdings_.of(entry).note_size(policy_.planner(), entry); });
}

void EntryReader::foresee(Entry& entry, const Use& use) noexcept {
  if (!read_ahead_.is_on()) return;
  ReadAhead::Choice choice;
  if_memory_allows([&] {
    const std::lock_guard lock(lists_.mutex);
    read_ahead_.read(entry, use, policy_.window_limit(), side_.is_on(),
                     lists_.held.offloaded() != 0, choice);
  });
  for (const auto& [next, reads] : choice.decodes) {
    if (!holdings_.of(*next).is_for_side_thread()) {
      decode_ahead(*next, reads);  // only enqueues the decoding
    } else if (!side_.decode(*next, reads)) {
      keeper_.drop_holder(*next);
    }
  }
  for (Entry* next : choice.fetches) holdings_.of(*next).fetch_ahead(*next);
}

void EntryReader::decode_ahead(Entry& entry, codecs::Reads reads) noexcept {
  if (!if_memory_allows([&] { decode_if_wanted(entry, reads); })) {
    // Backward will decode it, or say that there is no memory.
    const std::lock_guard lock(lists_.mutex);
    read_ahead_.stop(entry);
  }
  keeper_.drop_holder(entry);
}

void EntryReader::decode_if_wanted(Entry& entry, codecs::Reads reads) {
  const EntryWork work(entry);
  bool wanted = false;
  {
    const std::lock_guard stash_lock(lists_.mutex);
    // If backward reads in another order than in the last step, no use may be left for this read.
    for (const Use* use = entry.first_use; use != nullptr && entry.ahead; use = use->next) {
      wanted = wanted || use->reads == reads;
    }
  }
  if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
  auto& alive = entry.decoded->alive[static_cast<std::size_t>(reads)];
  // Watched entries are decoded where their error is measured, derived ones when sources are read.
  const bool computes =
      is_derived(entry) && (reads == codecs::Reads::values || entry.recipe->signs_in_source);
  // The source of a recipe that is not settled yet, and will find that there is only a mask.
  const bool lacks = entry.state == Entry::State::encoded &&
                     !codecs::serves(held_by(entry).codec->restores(), reads);
  if (!wanted || computes || lacks || entry.sample != nullptr || !alive.expired()) return;
  entry.decoded->ahead = holdings_.of(entry).decode_ahead(entry, reads);
  alive = weak(entry.decoded->ahead);
}

}  // namespace cinch::hooks
