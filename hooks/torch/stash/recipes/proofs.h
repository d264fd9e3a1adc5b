// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/words.h"

namespace cinch::hooks {

/// Remembers which kinds of recipes give exactly PyTorch's bits, and which give values that are
/// near PyTorch's (nearness.h). A kind is the site of the save and a Recipe::key(). The first
/// recipes of a kind are compared before any is used, later one of every 64. A kind that was near
/// once is near from then on; after one larger difference it is never used again.
///
/// Where sizes change from step to step, as those of sentences do, kinds hardly ever repeat. So a
/// structure, whose recipes differ in sizes alone, is known too: after 16 comparisons without a
/// difference, its new kinds are used at once, and one of every 16 is compared.
///
/// A device's comparison takes its time, in which the host does not wait: what is compared is
/// stored, and so is what is saved until the kind is proved. The device alone knows whether weights
/// are neutral (Recipe::Step::is_neutral); after 16 such outcomes of a kind one in 64 recipes is
/// compared. Thread-safe.
class Proofs {
 public:
  enum class Comparison : std::uint8_t {
    equal,
    near,
    different,
    neutral,  ///< equal, but a norm's weights are a new model's, so that this proves nothing
    awaited,  ///< a device makes it
    not_made  ///< a source's values are not at hand
  };

  /// A comparison that a device makes. The next recipes of the kind ask for its outcome.
  struct Awaited {
    Awaited() = default;
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;
    virtual ~Awaited() = default;
    /// Nothing while it is not known. Does not wait.
    /// @return equal, near, different or neutral
    virtual std::optional<Comparison> outcome() const noexcept = 0;
  };

  struct Found {
    Comparison comparison;
    std::shared_ptr<const Awaited> awaited = nullptr;  ///< if it is `awaited`
  };

  enum class Answer : std::uint8_t {
    no,
    yes,
    unproved  ///< no, for want of the sources' values: it pays to have them the next time
  };

  /// Calls `report(label, what)` for each kind that differs, or is only near: no lock is held.
  using Report = std::function<void(std::string label, std::string what)>;
  explicit Proofs(Report report) : report_(std::move(report)) {}

  /// Whether `recipe` may be used. Sets its nanoseconds if so, and `is_near` if its kind is.
  /// @param near_serves Whether it may be used if it is near
  /// @param compare Computes and compares the value; called, if needed, without the lock
  Answer admits(Recipe& recipe, const Site& site, bool near_serves,
                const std::function<Found()>& compare);

  /// How many kinds were refused after a difference.
  std::size_t refused() const;

  /// For holding the lock over a fork.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Kind {
    std::uint64_t seen = 0;
    std::uint64_t nanoseconds = 0;
    std::uint32_t proved = 0;   ///< comparisons without a difference
    std::uint32_t neutral = 0;  ///< comparisons that prove nothing
    std::uint8_t unproved = 0;
    bool refused = false;
    bool is_near = false;
    std::vector<std::shared_ptr<const Awaited>> awaited;

    bool proves_new_kinds() const noexcept;  ///< of a structure
  };
  using Findings = std::vector<std::string>;  // to be reported when the lock is free
  std::optional<Answer> known(Recipe& recipe, const Recipe::Key& key, Findings& findings);
  Answer answer(Recipe& recipe, const Site& site, bool near_serves,
                const std::function<Found()>& compare, Findings& findings);
  static void take_outcomes(const Recipe& recipe, Kind& kind, Kind& structure, Findings& findings);
  static void note(const Recipe& recipe, Kind& kind, Kind& structure, Comparison found,
                   Findings& findings);
  Kind& structure_of(const Recipe::Key& key);

  const Report report_;
  mutable std::mutex mutex_;
  std::unordered_map<Words, Kind, HashOfWords> kinds_;
  std::unordered_map<Words, Kind, HashOfWords> structures_;
};

}  // namespace cinch::hooks
