// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/derivation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/streams.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/figures/listeners.h"
#include "hooks/torch/stash/on_device/on_device.h"
#include "policy/algorithms/algorithm.h"

namespace cinch::hooks {
namespace {

// An entry waits for the program to let go of its source until so many entries came after it. In a
// block of a network the program lets go when the block's residual sum is done.
constexpr std::uint32_t most_awaited = 64;

// The same for a recipe that an entry's values can prove. A gate waits for the product with it: the
// matrix product between them saves one tensor.
constexpr std::uint32_t most_wanted = 8;

// Nothing is taken from the program before so many entries came after it: a function's variables
// live until it returns.
constexpr std::uint32_t least_shared = 8;

/// Makes the source's use a copy of `like`, but of this geometry, and the recipe's.
void prepare(const Recipe& recipe, Recipe::Source& source, const Use& like,
             const Geometry& geometry) {
  RecipesUse& use = source.use;
  use.site = like.site;
  use.geometry = geometry;
  use.operator_says = like.operator_says;
  use.type = like.type;
  use.is_output = like.is_output;
  use.is_linear_output = like.is_linear_output;
  use.sequence = like.sequence;
  use.is_recipes = true;
  use.recipe = &recipe;
}

/// Whether both compare with the same numbers, at one site.
bool share_interval(const Use& a, const Use& b) {
  const auto* of_a = std::get_if<std::array<float, 2>>(&a.operator_says);
  const auto* of_b = std::get_if<std::array<float, 2>>(&b.operator_says);
  return a.site == b.site && of_a != nullptr && of_b != nullptr &&
         std::memcmp(of_a, of_b, sizeof *of_a) == 0;  // a NaN stands for none
}

// Whether a use reads the entry's values, or it may be derived, or needs several intervals' masks,
// which no codec but of values holds. pre: the stash's lock is held
bool holds_values(const Entry& entry) {
  if (entry.recipe != nullptr && entry.recipe->depth != 0) return true;
  const Use* compares = nullptr;
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->is_comparison_held) continue;
    const codecs::Reads reads = use->is_recipes ? codecs::Reads::values : reads_at(*use->site);
    if (reads == codecs::Reads::values) return true;
    if (reads != codecs::Reads::interval) continue;
    if (compares != nullptr && !share_interval(*compares, *use)) return true;
    compares = use;
  }
  return false;
}

using Fate = AttentionPair::Fate;

/// The fate of attention's other part than `recipe`'s. pre: the stash's lock is held
Fate fate_of_other(const Recipe& recipe) {
  return (*recipe.pair)[other_part(recipe.part())].fate;
}

/// Whether the program owns a source too, and might change it. pre: the stash's lock is held
bool program_owns_source(const Recipe& recipe) {
  return std::ranges::any_of(recipe.sources(), [](const Recipe::Source& source) {
    return source.entry->place == Entry::Place::owned;
  });
}

/// Whether backward has been given a source that still waits in the window. pre: the stash's lock
/// is held
bool backward_has_source(const Recipe& recipe) {
  return std::ranges::any_of(recipe.sources(), [](const Recipe::Source& source) {
    const Entry& entry = *source.entry;
    return entry.place == Entry::Place::window && !entry.shared && entry.raw.use_count() > 1;
  });
}

/// Whether values that the entry's recipe computes of approximations may stand in for its own. Of
/// attention both parts or none: backward would compare exact scores with approximated ones.
bool may_be_approximated(const Entry& entry) {
  const Recipe& recipe = *entry.recipe;
  if (!recipe.is_attention()) return entry.plan().may_be_approximated();
  return recipe.pair != nullptr && !recipe.other_is_stored &&
         (recipe.is_log_sum_exp() || entry.plan().may_be_approximated());
}

/// The sides of the ReLU behind a batch norm, if the recipe is that of both and the norm's step has
/// its statistics, which are taken from it; null: they serve no source.
std::unique_ptr<Sides> take_sides(Recipe& recipe) {
  const std::vector<Recipe::Step>& steps = recipe.value.steps;
  const bool is_relu_of_norm = recipe.source_count == 1 && steps.size() == 2 &&
                               steps[0].op == Recipe::Operator::channel_norm &&
                               steps[1].op == Recipe::Operator::relu && !steps[0].means.empty();
  if (!is_relu_of_norm) return nullptr;
  Recipe::Step& norm = recipe.value.steps[0];
  auto sides = std::make_unique<Sides>(
      Sides{norm.scale, norm.shift, std::move(norm.means), std::move(norm.deviations), norm.order});
  norm.means = norm.deviations = {};
  // float16 rounds small positive results to 0.
  const bool serves = !recipe.is_near && recipe.type != at::kHalf &&
                      recipe.value.start_type == recipe.type && recipe.value.offset == 0 &&
                      recipe.sources()[0].use.geometry.offset() == 0;
  return serves ? std::move(sides) : nullptr;
}

/// Whether what is computed along with the recipe's value may be left for another reader. A CUDA
/// graph that is captured may share nothing with work outside of it.
bool may_leave_other(const Recipe& recipe) {
  return recipe.pair != nullptr && (recipe.device.is_cpu() || !is_capturing(recipe.device));
}

/// The stream in whose order results are valid; none on the host.
std::optional<c10::Stream> stream_of(c10::Device device) {
  return device.is_cpu() ? std::nullopt : std::optional(current_stream(device));
}

/// The values of a recipe's sources, held for its scope.
class SourceValues {
 public:
  /// @param read Gives the storage of a source's values, or null
  template <typename Read>
  SourceValues(const Recipe& recipe, const Read& read)
      : SourceValues(recipe, read, [](const Recipe::Source&) { return SourceErrors(); }) {}
  /// @param err Gives the errors of values that are read afterwards
  template <typename Read, typename Err>
  SourceValues(const Recipe& recipe, const Read& read, const Err& err)
      : count_(recipe.source_count) {
    for (; known_ < count_; ++known_) {
      const Recipe::Source& source = recipe.sources()[known_];
      errors_[known_] = err(source);
      storages_[known_] = read(source);
      if (!storages_[known_]) return;
      values_[known_] = source.values_in(storages_[known_]);
    }
  }
  bool are_known() const noexcept { return known_ == count_; }
  std::span<const void* const> get() const noexcept { return {values_.data(), count_}; }
  std::span<const SourceErrors> errors() const noexcept { return {errors_.data(), count_}; }

 private:
  std::size_t count_;
  std::size_t known_ = 0;
  std::array<c10::Storage, Recipe::most_sources> storages_;
  std::array<const void*, Recipe::most_sources> values_{};
  std::array<SourceErrors, Recipe::most_sources> errors_;
};

}  // namespace

void RecipesEnd::operator()(Recipe* recipe) const noexcept {
  derivation->give_up(*recipe);
  delete recipe;
}

Derivation::Derivation(EntryLists& lists, EntryKeeper& keeper, GuardLooks& looks,
                       const PolicyInForce& policy, const Holdings& holdings)
    : lists_(lists),
      keeper_(keeper),
      looks_(looks),
      policy_(policy),
      holdings_(holdings),
      proofs_([this](std::string label, std::string what) {
        report(std::move(label), std::move(what));
      }) {
  register_fork_lock(proofs_.mutex());
}

void Derivation::report(std::string label, std::string what) {
  tell(telemetry::EventKind::message, "%s: %s", label.c_str(), what.c_str());
  const std::lock_guard lock(lists_.mutex);
  lists_.timeline.decided("derivation", std::move(label), std::move(what));
}

std::optional<std::uint8_t> Derivation::hold_source(const Recipe& recipe, Recipe::Source& source,
                                                    Entry& entry, const Use& like,
                                                    const Geometry& geometry) {
  prepare(recipe, source, like, geometry);
  const std::lock_guard lock(lists_.mutex);
  if (!holds_values(entry)) return std::nullopt;
  return hold(source, entry);
}

std::optional<std::uint8_t> Derivation::hold_unsaved(const Recipe& recipe, Recipe::Source& source,
                                                     const UnsavedSources::Key& key,
                                                     const Use& like) {
  prepare(recipe, source, like, like.geometry);
  const std::lock_guard lock(lists_.mutex);
  Entry* const entry = unsaved_.find(key);
  return entry == nullptr ? std::nullopt : std::optional(hold(source, *entry));
}

void Derivation::add_unsaved(const UnsavedSources::Key& key, Entry& entry) {
  const std::lock_guard lock(lists_.mutex);
  unsaved_.add(key, entry);
}

void Derivation::forget_unsaved(const Entry& entry) noexcept {
  unsaved_.forget(entry);
}

// pre: the source is prepared, and the stash's lock is held
std::uint8_t Derivation::hold(Recipe::Source& source, Entry& entry) {
  source.entry = &entry;
  lists_.add_use(entry, source.use);
  ++entry.holders;
  return entry.recipe == nullptr ? 0 : entry.recipe->depth;
}

void Derivation::release_sources(Recipe& recipe, std::size_t but) noexcept {
  const std::size_t count = recipe.source_count;
  if (count == but) return;  // as of most recipes that are given up
  std::array<Entry*, Recipe::most_sources> held{};
  {
    // Other threads look at the recipe's sources.
    const std::lock_guard lock(lists_.mutex);
    for (std::size_t i = but; i < count; ++i) {
      held[i] = std::exchange(recipe.all_sources[i].entry, nullptr);
    }
    recipe.source_count = but;
  }
  for (std::size_t i = but; i < count; ++i) {
    if (held[i] != nullptr) keeper_.drop_holder(*held[i], &recipe.all_sources[i].use);
  }
}

void Derivation::give_up(Recipe& recipe) noexcept {
  release_sources(recipe);
  const std::lock_guard lock(lists_.mutex);
  note_fate(recipe, Fate::stored);
}

bool Derivation::proves(Recipe& recipe, const Site& site, const at::Tensor& actual) {
  Holding& holding = holdings_.of(recipe.device);
  const bool near_serves = !policy::keeps_all_exact(policy_.settings());
  const Proofs::Answer answer = proofs_.admits(recipe, site, near_serves, [&]() -> Proofs::Found {
    const SourceValues exact(recipe, [&](const Recipe::Source& source) {
      c10::Storage values = keeper_.exact_values(*source.entry);
      if (values) holding.lend(*source.entry, values);
      return values;
    });
    if (!exact.are_known()) return {Proofs::Comparison::not_made};
    return holding.compare(recipe, exact.get(), actual, near_serves);
  });
  if (answer == Proofs::Answer::unproved) {
    for (const Recipe::Source& source : recipe.sources()) source.use.site->want_values();
  }
  if (answer != Proofs::Answer::yes) return false;
  holding.own_constants(recipe);
  return true;
}

void Derivation::tell_sources(Recipe& recipe) {
  auto sides = take_sides(recipe);
  const std::lock_guard lock(lists_.mutex);
  recipe.mark_arguments();
  if (sides == nullptr) return;
  Entry& entry = *recipe.sources()[0].entry;
  const bool is_early = entry.place == Entry::Place::owned || entry.place == Entry::Place::window;
  if (!is_early || entry.sides != nullptr) return;
  entry.sides = std::move(sides);
  recipe.gave_sides = true;
}

void Derivation::pair(Recipe& output, Entry& log_sum_exp, OfferedRecipe recipe) {
  auto pair = std::make_shared<AttentionPair>();
  const std::lock_guard lock(lists_.mutex);
  if (log_sum_exp.place != Entry::Place::owned || log_sum_exp.recipe != nullptr) return;
  output.pair = recipe->pair = std::move(pair);
  log_sum_exp.recipe.reset(recipe.release());
}

void Derivation::note_fate(const Recipe& recipe, Fate fate) noexcept {
  if (recipe.pair != nullptr) (*recipe.pair)[recipe.part()].fate = fate;
}

bool Derivation::keep_sources(Entry& entry) {
  if (!entry.recipe->is_log_sum_exp()) return false;
  const std::lock_guard lock(lists_.mutex);
  if (entry.place == Entry::Place::settled) return false;
  entry.recipe->keeps_sources = true;
  return true;
}

bool Derivation::has_to_follow(const Entry& entry) {
  Recipe& recipe = *entry.recipe;
  {
    const std::lock_guard lock(lists_.mutex);
    if (recipe.source_count == 0 || fate_of_other(recipe) == Fate::stored) return false;
  }
  return std::ranges::any_of(recipe.sources(), [](const Recipe::Source& source) {
    const Entry& of = *source.entry;
    const EntryLock lock(of);
    if (of.state == Entry::State::derived) return of.recipe->approximates;
    return of.state == Entry::State::encoded && held_by(of).approximates;
  });
}

void Derivation::note_leaving(Recipe& recipe) {
  recipe.has_owned_source = program_owns_source(recipe) || backward_has_source(recipe);
  if (recipe.has_owned_source) note_fate(recipe, Fate::stored);
  recipe.other_is_stored = recipe.pair != nullptr && fate_of_other(recipe) == Fate::stored;
}

bool Derivation::awaits_others(const Entry& entry) const {
  if (!lists_.growing.load(std::memory_order_relaxed)) return false;
  const std::uint32_t behind = lists_.next_id - entry.id;
  if (entry.wanted && behind <= most_wanted) return true;
  if (entry.recipe == nullptr || behind > most_awaited) return false;
  const Recipe& recipe = *entry.recipe;
  const bool awaits_output = recipe.is_log_sum_exp() && fate_of_other(recipe) == Fate::open;
  return awaits_output || program_owns_source(recipe);
}

bool Derivation::takes_from_program(const Entry& entry) const {
  const RecipesUse* const use = use_by_pair(entry.first_use);
  if (use == nullptr || use->recipe->pair->is_stored()) return false;
  const bool is_due =
      !lists_.growing.load(std::memory_order_relaxed) || lists_.next_id - entry.id >= least_shared;
  return is_due && !policy::keeps_all_exact(policy_.settings());
}

void Derivation::look_at_sources(Entry& entry) {
  Recipe& recipe = *entry.recipe;
  recipe.approximates |= recipe.is_near;
  recipe.signs_in_source = false;
  recipe.is_ready = !recipe.has_owned_source &&
                    std::ranges::all_of(recipe.sources(), [&](const Recipe::Source& each) {
                      return look_at(each, recipe);
                    });
}

// Takes the source's locks, so the entry's own must not be held: no thread may hold two.
bool Derivation::look_at(const Recipe::Source& of, Recipe& recipe) {
  Entry& source = *of.entry;
  if (!of.is_as_saved()) return false;
  const std::shared_lock gate(entry_work());
  const std::lock_guard lock(source.mutex());
  const auto serves = [&](bool approximates) {
    recipe.approximates |= approximates;
    return !approximates || !recipe.needs_exact_sources;
  };
  switch (source.state) {
    case Entry::State::pending:
      return serves(source.plan().approximates()) && source.is_as_saved() &&
             source.plan().keeps_values();
    case Entry::State::kept:
      return source.is_solely_ours() || (source.shared && source.is_as_saved());
    case Entry::State::encoded:
      recipe.signs_in_source = recipe.gave_sides && held_by(source).by_sides;
      return serves(held_by(source).approximates) &&
             held_by(source).codec->restores() == codecs::Reads::values;
    case Entry::State::derived:
      return serves(source.recipe->approximates);
    case Entry::State::dropped:
    case Entry::State::moved:
      return false;
  }
  return false;
}

bool Derivation::let_go(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for) {
  const Plan& plan = entry.plan();
  if (entry.recipe == nullptr || plan.derived == nullptr || !entry.recipe->is_ready) return false;
  if (entry.recipe->approximates && !may_be_approximated(entry)) return false;
  const Stopwatch watch;
  const bool needs_mask = !entry.recipe->signs_in_source;
  if (needs_mask && !holdings_.of(entry).encode_mask(entry, parallel_for)) return false;
  entry.state = Entry::State::derived;
  freed = std::move(entry.raw);
  if (plan.approximates()) looks_.keep_sample(entry, freed);
  count(entry, *plan.derived, entry.encoded_bytes + entry.constant_bytes(), watch.nanoseconds());
  return true;
}

c10::Storage Derivation::compute(Entry& entry,
                                 const std::function<c10::Storage(Entry&, const Use&)>& read,
                                 Bias bias) {
  const Recipe& recipe = *entry.recipe;
  Holding& holding = holdings_.of(entry);
  // Null where it was not planned before backward reads it.
  OpTotals* const totals = entry.own_plan == nullptr ? nullptr : entry.plan().derived;
  // Else `read` may give other values than the source's bytes.
  const bool reads_decoded = bias == Bias::subtracted;
  const bool leaves_other = reads_decoded && may_leave_other(recipe);
  if (leaves_other) {
    if (c10::Storage left = take_left(entry)) return left;
  }
  if (reads_decoded) {
    const Stopwatch watch;
    if (c10::Storage storage = holding.compute_in_one_pass(entry)) {
      if (totals != nullptr) count_reading(entry, *totals, watch);
      return storage;
    }
  }
  const auto errors_of = [&](const Recipe::Source& source) {
    const bool errs = recipe.approximates && source.is_curved;
    if (bias == Bias::kept || !errs) return SourceErrors();
    return holdings_.of(*source.entry).errors_of(*source.entry);
  };
  const SourceValues sources(
      recipe, [&](const Recipe::Source& source) { return read(*source.entry, source.use); },
      errors_of);
  const Stopwatch watch;
  at::Tensor other;
  c10::Storage storage = holding.compute(entry, sources.get(), sources.errors(), other);
  if (totals != nullptr) count_reading(entry, *totals, watch);
  if (leaves_other) leave(recipe, std::move(other));
  return storage;
}

c10::Storage Derivation::take_left(const Entry& entry) {
  const Recipe& recipe = *entry.recipe;
  at::Tensor left;  // freed after the lock
  {
    const std::lock_guard lock(lists_.mutex);
    AttentionPair::Half& half = (*recipe.pair)[recipe.part()];
    if (half.left_in != stream_of(recipe.device)) return {};
    std::swap(left, half.left);
  }
  const bool lies_alike = left.defined() && left.storage_offset() == 0 &&
                          left.storage().nbytes() == entry.raw_bytes &&
                          layout_of(left) == recipe.value.layout();
  return lies_alike ? left.storage() : c10::Storage();
}

void Derivation::leave(const Recipe& recipe, at::Tensor other) {
  const std::lock_guard lock(lists_.mutex);
  AttentionPair::Half& half = (*recipe.pair)[other_part(recipe.part())];
  std::swap(half.left, other);
  half.left_in = stream_of(recipe.device);
}

}  // namespace cinch::hooks
