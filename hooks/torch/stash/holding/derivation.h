// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/stash/adapting/guard_looks.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_keeper.h"
#include "hooks/torch/stash/holding/holdings.h"
#include "hooks/torch/stash/holding/unsaved_sources.h"
#include "hooks/torch/stash/lists/entry_lists.h"
#include "hooks/torch/stash/recipes/proofs.h"
#include "hooks/torch/stash/recipes/recipe.h"

namespace cinch::hooks {

/// Whether the bias is subtracted from a derived value. Not where `read` gives other values than
/// the decoded ones.
enum class Bias : std::uint8_t { kept, subtracted };

class Derivation;

/// Deletes a recipe that belongs to no entry, and gives up its holds on its sources. @pre the
/// stash's lock is not held
struct RecipesEnd {
  Derivation* derivation = nullptr;
  void operator()(Recipe* recipe) const noexcept;
};

/// A recipe that is being made or offered.
using OfferedRecipe = std::unique_ptr<Recipe, RecipesEnd>;

/// Derived entries, which hold no values of their own: decides which entries may be computed from
/// others, and computes them (docs/derived.md). Thread-safe.
class Derivation {
 public:
  /// @param holdings Not used before they are constructed
  Derivation(EntryLists& lists, EntryKeeper& keeper, GuardLooks& looks, const PolicyInForce& policy,
             const Holdings& holdings);
  Derivation(const Derivation&) = delete;
  Derivation& operator=(const Derivation&) = delete;

  /// A recipe of nothing yet. @throws std::bad_alloc
  OfferedRecipe new_recipe() { return {new Recipe, {this}}; }
  /// Makes `entry` the next source of a recipe that is being made: adds a copy of `like`, but with
  /// this geometry, to its uses.
  /// @return how many recipes lie between its values and stored ones; nothing, and no use is added,
  ///   where its values would be held only for the recipe
  std::optional<std::uint8_t> hold_source(const Recipe& recipe, Recipe::Source& source,
                                          Entry& entry, const Use& like, const Geometry& geometry);
  /// The same for what nobody saved, if some recipe has a copy of it. @return how many recipes lie
  /// between its values and stored ones
  std::optional<std::uint8_t> hold_unsaved(const Recipe& recipe, Recipe::Source& source,
                                           const UnsavedSources::Key& key, const Use& like);
  /// Has other recipes find the entry, which Stash::save() made. @throws std::bad_alloc
  void add_unsaved(const UnsavedSources::Key& key, Entry& entry);
  /// Such an entry is deleted. @pre the stash's lock is held
  void forget_unsaved(const Entry& entry) noexcept;
  /// Gives up the recipe's holds on its sources, but for the first `but`.
  void release_sources(Recipe& recipe, std::size_t but = 0) noexcept;
  /// The same for all, of a recipe that belongs to no entry.
  void give_up(Recipe& recipe) noexcept;

  /// Whether recipes of this kind are proved to give PyTorch's bits, or values near PyTorch's if
  /// the policy approximates any (Proofs). Compares the recipe's values with `actual` if that is
  /// due. Where sources have been approximated by then, the next ones wait. @param site Where
  /// `actual` is saved
  bool proves(Recipe& recipe, const Site& site, const at::Tensor& actual);

  /// Tells its sources how the recipe, which is proved, reads them (Recipe::mark_arguments), and
  /// gives the source of a batch norm and ReLU the sides of the ReLU, if the norm's step has its
  /// statistics and the source is not being settled already: the ReLU then needs no mask, where the
  /// source is encoded with them.
  void tell_sources(Recipe& recipe);

  /// Makes `recipe`, which is proved, that of the log-sum-exp that belongs to attention's `output`.
  void pair(Recipe& output, Entry& log_sum_exp, OfferedRecipe recipe);

  /// Tells attention's other part what becomes of the part that `recipe` is for. Called by the
  /// saving thread alone, so that no decision depends on how far the side thread is. @pre the
  /// stash's lock is held
  static void note_fate(const Recipe& recipe, AttentionPair::Fate fate) noexcept;

  /// The entry leaves the window: notes what the side thread, which may look later, decides by.
  /// @pre the stash's lock is held
  static void note_leaving(Recipe& recipe);

  /// Keeps the sources of a log-sum-exp that is not settled yet for a reader of them, whatever
  /// other threads do with it meanwhile. @return false where it is settled: it is read as it is
  /// held
  bool keep_sources(Entry& entry);

  /// Whether the entry, though raw, is the log-sum-exp of approximated operands: of the two parts
  /// of an attention at the window's end only the output is derived by then, perhaps. @pre
  /// keep_sources(), and the sources are not being settled
  bool has_to_follow(const Entry& entry);

  /// Whether an owned entry should wait, because the program owns a source too, and might change
  /// it; for a recipe that its exact values can prove; or, a log-sum-exp, for the decision about
  /// its output. @pre the stash's lock is held
  bool awaits_others(const Entry& entry) const;

  /// Whether an owned entry is to be encoded though the program owns it too: attention's keys, say,
  /// that it has in a cache until the forward ends, because attention's output is computed from
  /// them. Only under policies that approximate: the program may write to memory in ways that
  /// PyTorch's version counters don't see. @pre the stash's lock is held
  bool takes_from_program(const Entry& entry) const;

  /// Sets `is_ready` and `approximates` of the recipe of an entry that is about to be settled. No
  /// lock is held.
  void look_at_sources(Entry& entry);

  /// Makes the entry derived, if its values can be computed: keeps at most a mask. An entry that
  /// may not be approximated is only derived from exact values. @return whether it was derived
  /// @pre entry.mutex() is held and entry.is_solely_ours()
  bool let_go(Entry& entry, c10::Storage& freed, codecs::ParallelFor parallel_for);

  /// The values of a derived entry, computed in the current stream. No lock is held.
  /// @param read Gives the values of a source, usable there
  /// @param bias What quantization gives functions of decoded sources
  /// (codecs/arithmetic/curvature.h)
  /// @throws c10::Error when there is no memory
  c10::Storage compute(Entry& entry, const std::function<c10::Storage(Entry&, const Use&)>& read,
                       Bias bias);

 private:
  /// Tells of a kind of recipes that is not computed as PyTorch does.
  void report(std::string label, std::string what);

  /// The part of an attention that was left when its other part was computed; null if there is
  /// none, or another stream left it. It is given once. @pre entry.recipe->pair is set
  c10::Storage take_left(const Entry& entry);
  /// Leaves what was computed along with the part that `recipe` is for. @pre recipe.pair is set
  void leave(const Recipe& recipe, at::Tensor other);

  std::uint8_t hold(Recipe::Source& source, Entry& entry);

  /// Whether the source has values that will not change. Sets `recipe.approximates` if they are
  /// approximated.
  bool look_at(const Recipe::Source& of, Recipe& recipe);

  EntryLists& lists_;
  EntryKeeper& keeper_;
  GuardLooks& looks_;
  const PolicyInForce& policy_;
  const Holdings& holdings_;
  Proofs proofs_;
  UnsavedSources unsaved_;
};

}  // namespace cinch::hooks
