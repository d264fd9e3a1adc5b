// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/derivation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/entry_work.h"
#include "policy/operand.h"

namespace cinch::hooks {
namespace {

// How many entries may come after one that waits until the program lets go of its source. Within a
// block of a network that is when the block's residual sum is done.
constexpr std::uint32_t most_awaited = 64;

// Whether the entry's values are read, or computed in their turn. pre: the stash's lock is held
bool holds_values(const Entry& entry) {
  if (entry.recipe != nullptr) return true;
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    const SiteNames* names = use->site->names();
    if (use->is_recipes || names == nullptr) return true;
    if (policy::operand_fact(names->op, names->operand).reads == codecs::Reads::values) return true;
  }
  return false;
}

}  // namespace

Derivation::Derivation(EntryLists& lists, EntryKeeper& keeper, HostBuffers& buffers,
                       GuardLooks& looks)
    : lists_(lists), keeper_(keeper), buffers_(buffers), looks_(looks) {
  register_fork_lock(proofs_.mutex());
}

std::optional<std::uint8_t> Derivation::hold_source(Recipe::Source& source, Entry& entry,
                                                    const Use& like) {
  Use& use = source.use;
  use.site = like.site;
  use.geometry = like.geometry;
  use.operator_says = like.operator_says;
  use.type = like.type;
  use.is_output = like.is_output;
  use.sequence = like.sequence;
  use.is_recipes = true;
  const std::lock_guard lock(lists_.mutex);
  if (!holds_values(entry)) return std::nullopt;
  source.entry = &entry;
  entry.append(use);
  ++entry.holders;
  return entry.recipe == nullptr ? 0 : entry.recipe->depth;
}

void Derivation::release_sources(Recipe& recipe) noexcept {
  for (Recipe::Source& source : recipe.sources()) {
    if (Entry* entry = std::exchange(source.entry, nullptr))
      keeper_.drop_holder(*entry, &source.use);
  }
}

bool Derivation::proves(Recipe& recipe, const Site& site, const at::Tensor& actual) {
  return proofs_.admits(recipe, site, [&] {
    std::array<c10::Storage, Recipe::most_sources> exact;
    std::array<const void*, Recipe::most_sources> values{};
    for (std::size_t i = 0; i < recipe.source_count; ++i) {
      const Recipe::Source& source = recipe.sources()[i];
      exact[i] = keeper_.exact_values(*source.entry);
      if (!exact[i]) return Proofs::Comparison::not_made;
      values[i] = source.values_in(exact[i]);
    }
    const auto bytes = static_cast<std::size_t>(recipe.elements) * sizeof(float);
    const c10::DataPtr computed = buffers_.decoded.take(bytes);
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

bool Derivation::awaits_source(const Entry& entry) const {
  if (entry.recipe == nullptr || !lists_.growing.load(std::memory_order_relaxed)) return false;
  if (lists_.next_id - entry.id > most_awaited) return false;
  return std::ranges::any_of(entry.recipe->sources(), [](const Recipe::Source& source) {
    return source.entry->place == Entry::Place::owned;
  });
}

// The entry's own lock is not held meanwhile: nobody holds two.
void Derivation::look_at_sources(Entry& entry) {
  Recipe& recipe = *entry.recipe;
  recipe.is_ready = true;
  for (const Recipe::Source& each : recipe.sources()) {
    Entry& source = *each.entry;
    {
      const std::lock_guard lock(lists_.mutex);
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

bool Derivation::let_go(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for) {
  const Plan& plan = entry.plan();
  if (entry.recipe == nullptr || plan.derived == nullptr || !entry.recipe->is_ready) return false;
  const bool tolerant = plan.candidates.front().approximates;
  if (entry.recipe->approximates && !tolerant) return false;
  const Stopwatch watch;
  if (plan.mask) {
    c10::DataPtr buffer = buffers_.encoded.take(plan.mask->bound);
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
  if (tolerant) looks_.keep_sample(entry, freed);
  count(entry, *plan.derived, entry.encoded_bytes + entry.constant_bytes(), watch.nanoseconds());
  return true;
}

c10::Storage Derivation::compute(Entry& entry,
                                 const std::function<c10::Storage(Entry&, const Use&)>& read) {
  const Recipe& recipe = *entry.recipe;
  std::array<c10::Storage, Recipe::most_sources> held;
  std::array<const void*, Recipe::most_sources> values{};
  for (std::size_t i = 0; i < recipe.source_count; ++i) {
    const Recipe::Source& source = recipe.sources()[i];
    held[i] = read(*source.entry, source.use);
    values[i] = source.values_in(held[i]);
  }
  c10::DataPtr data = buffers_.decoded.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to compute a saved tensor");
  const Stopwatch watch;
  recipe.compute({values.data(), recipe.source_count},
                 static_cast<const std::byte*>(entry.encoded.get()),
                 static_cast<float*>(data.get()));
  const std::uint64_t nanoseconds = watch.nanoseconds();
  entry.plan().derived->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  entry.row->decode_nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
  return storage_of(std::move(data), entry.raw_bytes);
}

}  // namespace cinch::hooks
