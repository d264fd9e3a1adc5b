// SPDX-License-Identifier: Apache-2.0
// Entries that hold no values of their own: which may be computed from others, and how backward
// gets them (docs/derived.md).
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/module_names.h"
#include "hooks/torch/stash/recipe.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

// How many entries may come after one that waits until the program lets go of its source. Within a
// block of a network that is when the block's residual sum is done.
constexpr std::uint32_t most_awaited = 64;

}  // namespace

std::uint8_t Stash::hold_source(Recipe::Source& source, Entry& entry, const Use& like) {
  Use& use = source.use;
  use.site = like.site;
  use.geometry = like.geometry;
  use.operator_says = like.operator_says;
  use.type = like.type;
  use.is_output = like.is_output;
  use.sequence = like.sequence;
  use.is_recipes = true;
  const std::lock_guard lock(mutex_);
  source.entry = &entry;
  entry.append(use);
  ++entry.holders;
  return entry.recipe == nullptr ? 0 : entry.recipe->depth;
}

void Stash::release_sources(Recipe& recipe) noexcept {
  for (Recipe::Source& source : recipe.sources()) {
    if (Entry* entry = std::exchange(source.entry, nullptr)) drop_holder(*entry, &source.use);
  }
}

c10::Storage Stash::raw_of(Entry& entry) {
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  if (!entry.is_raw() || !entry.is_as_saved()) return {};
  return entry.raw;
}

bool Stash::is_waiting(const c10::Storage& storage) const {
  const std::lock_guard lock(mutex_);
  return waiting_.find(storage) != nullptr;
}

bool Stash::proves(Recipe& recipe, const Site& site, const at::Tensor& actual) {
  return proofs_.admits(recipe, site, [&] {
    std::array<c10::Storage, Recipe::most_sources> raw;
    std::array<const float*, Recipe::most_sources> values{};
    for (std::size_t i = 0; i < recipe.source_count; ++i) {
      const Recipe::Source& source = recipe.sources()[i];
      raw[i] = raw_of(*source.entry);
      if (!raw[i]) return Proofs::Comparison::not_made;
      values[i] = static_cast<const float*>(raw[i].data()) + source.use.geometry.offset();
    }
    const auto bytes = static_cast<std::size_t>(recipe.elements) * sizeof(float);
    const c10::DataPtr computed = decoded_pool_.take(bytes);
    if (computed.get() == nullptr) return Proofs::Comparison::not_made;
    const Stopwatch watch;
    recipe.compute({values.data(), recipe.source_count}, nullptr,
                   static_cast<float*>(computed.get()));
    recipe.nanoseconds = watch.nanoseconds();
    return std::memcmp(computed.get(), actual.const_data_ptr(), bytes) == 0
               ? Proofs::Comparison::equal
               : Proofs::Comparison::different;
  });
}

// Whether an owned entry had better wait: a source is the program's, too, and might change.
// pre: mutex_ is held
bool Stash::awaits_source(const Entry& entry) const {
  if (entry.recipe == nullptr || !growing_.load(std::memory_order_relaxed)) return false;
  if (next_id_ - entry.id > most_awaited) return false;
  return std::ranges::any_of(entry.recipe->sources(), [](const Recipe::Source& source) {
    return source.entry->place == Entry::Place::owned;
  });
}

// Finds out whether the sources of an entry that is about to be settled have values for good. Its
// own lock is not held meanwhile: nobody holds two.
void Stash::look_at_sources(Entry& entry) {
  Recipe& recipe = *entry.recipe;
  recipe.is_ready = true;
  for (const Recipe::Source& each : recipe.sources()) {
    Entry& source = *each.entry;
    {
      const std::lock_guard lock(mutex_);
      if (source.place == Entry::Place::owned) recipe.is_ready = false;
    }
    if (!recipe.is_ready || !each.is_as_saved()) {
      recipe.is_ready = false;
      return;
    }
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(source.mutex());
    switch (source.state) {
      case Entry::State::pending:
        recipe.is_ready = source.is_solely_ours() && source.plan().keeps_values();
        recipe.approximates |= source.plan().approximates();
        break;
      case Entry::State::kept:
        recipe.is_ready = source.is_solely_ours();
        break;
      case Entry::State::encoded:
        recipe.is_ready = held_by(source).codec->restores() == codecs::Reads::values;
        recipe.approximates |= held_by(source).approximates;
        break;
      case Entry::State::derived:
        recipe.approximates |= source.recipe->approximates;
        break;
      case Entry::State::dropped:
      case Entry::State::moved:
        recipe.is_ready = false;
        break;
    }
    if (!recipe.is_ready) return;
  }
}

// Lets go of values that can be computed, but for a mask. What may not be approximated is only
// computed from exact values. pre: entry.mutex() is held and entry.is_solely_ours()
bool Stash::derive(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for) {
  const Plan& plan = entry.plan();
  if (entry.recipe == nullptr || plan.derived == nullptr || !entry.recipe->is_ready) return false;
  const bool tolerant = plan.candidates.front().approximates;
  if (entry.recipe->approximates && !tolerant) return false;
  const Stopwatch watch;
  if (plan.mask) {
    c10::DataPtr buffer = encoded_pool_.take(plan.mask->bound);
    if (buffer.get() == nullptr) return false;
    const codecs::Encoded result = plan.mask->codec->encode(
        plan.mask->what, entry.raw.data(),
        {static_cast<std::byte*>(buffer.get()), plan.mask->bound}, {}, parallel_for);
    if (!result.representable) return false;
    const auto deleter = buffer.get_deleter();
    void* const data = buffer.get();
    entry.encoded = {data, buffer.release_context(), deleter};
    entry.encoded_bytes = result.bytes;
  }
  entry.state = Entry::State::derived;
  freed = std::move(entry.raw);
  if (tolerant) keep_sample(entry, freed);
  count(entry, *plan.derived, entry.encoded_bytes + entry.constant_bytes(), watch.nanoseconds());
  return true;
}

c10::Storage Stash::restore_on_host(Entry& entry, const Use& use, Reader reader,
                                    GradientProbe* probe) {
  if (entry.recipe != nullptr &&
      (reader == Reader::program || use.reads == codecs::Reads::values)) {
    for (;;) {
      if (c10::Storage derived = derive_values(entry, use, reader, probe)) return derived;
      // Another thread may have settled it meanwhile.
      if (c10::Storage held = restore_held(entry, use, reader, probe)) return held;
    }
  }
  return restore_held(entry, use, reader, probe);
}

// The values of a derived entry; nothing where it is held otherwise. Sources are read without the
// entry's own lock.
c10::Storage Stash::derive_values(Entry& entry, const Use& use, Reader reader,
                                  GradientProbe* probe) {
  constexpr auto values_index = static_cast<std::size_t>(codecs::Reads::values);
  {
    const AtWork here;
    const std::shared_lock gate(entry_work());
    const std::lock_guard lock(entry.mutex());
    if (entry.state != Entry::State::derived) return {};
    if (probe != nullptr) {
      if (c10::Storage given = restore_for_probe(*probe, entry, use)) return given;
    }
    if (!entry.row->looked_for.load(std::memory_order_relaxed)) note_module(*entry.row);
    if (entry.decoded == nullptr) entry.decoded = std::make_unique<DecodedStorages>();
    if (auto alive = entry.decoded->alive[values_index].lock()) {
      c10::Storage storage(std::move(alive));
      if (reader == Reader::program) entry.decoded->lent = storage;
      return storage;
    }
  }
  const Recipe& recipe = *entry.recipe;
  std::array<c10::Storage, Recipe::most_sources> held;
  std::array<const float*, Recipe::most_sources> values{};
  for (std::size_t i = 0; i < recipe.source_count; ++i) {
    const Recipe::Source& source = recipe.sources()[i];
    if (aside_) await_settled(*source.entry);
    held[i] = restore_on_host(*source.entry, source.use, Reader::node, probe);
    values[i] = static_cast<const float*>(held[i].data()) + source.use.geometry.offset();
  }
  c10::DataPtr data = decoded_pool_.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to compute a saved tensor");
  const Stopwatch watch;
  recipe.compute({values.data(), recipe.source_count},
                 static_cast<const std::byte*>(entry.encoded.get()),
                 static_cast<float*>(data.get()));
  const std::uint64_t nanoseconds = watch.nanoseconds();
  entry.plan().derived->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  entry.row->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  c10::Storage storage = storage_of(std::move(data), entry.raw_bytes);
  if (probe != nullptr) return storage;  // of probed sources: nobody else's
  const AtWork here;
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(entry.mutex());
  auto& decoded = entry.decoded->alive[values_index];
  if (auto alive = decoded.lock()) return c10::Storage(std::move(alive));
  decoded = weak(storage);
  if (reader == Reader::program) entry.decoded->lent = storage;
  measure(entry, storage);
  return storage;
}

}  // namespace cinch::hooks
