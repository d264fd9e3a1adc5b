// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policy/adapting/layer.h"
#include "policy/adapting/look.h"
#include "policy/policy.h"

namespace cinch::policy {

/// Numbers that a policy keeps, under names that it chooses.
using Numbers = std::map<std::string, double>;

/// Two step numbers with which a policy makes its choices soonest: it looks in step `learning`, and
/// has chosen when step `use` begins.
struct Rehearsal {
  std::uint64_t learning = 0;
  std::uint64_t use = 1;
};

struct LearnedLayer {
  Choice choice;
  Numbers numbers;
};

/// What a policy learned in a run. A layer's name is its operator, operand and size, and its place
/// among the layers that share these, in the order in which they were added.
struct LearnedState {
  std::string policy;
  std::map<std::string, LearnedLayer> layers;
  Numbers numbers;
};

/// Makes the choices of an adaptive policy. The stash adds layers and shows it looks at backward;
/// the director chooses how each layer is held. Deterministic: the same calls give the same
/// choices. Not thread-safe.
///
/// Steps are the program's optimizer steps as the stash counts them. Choices change only in
/// `begin_step` and `add`, so the choice of a known layer never changes within a step.
class Director {
 public:
  virtual ~Director() = default;
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  /// The layer to which `add` gave this number.
  const Layer& layer(std::uint32_t number) const { return states_[number].layer; }
  std::size_t layers() const noexcept { return states_.size(); }

  /// The choices for a layer like this; describe_layer then sets `Layer::menu` and `menu_bytes`.
  virtual std::vector<Choice> menu(const Layer& layer) const;

  /// The most layers that a director takes. Each costs memory and time in every step, and a program
  /// whose shapes never repeat has new layers forever.
  static constexpr std::size_t most_layers = 8192;
  bool is_full() const noexcept { return states_.size() >= most_layers; }

  /// Adds a layer that was not seen before. @return its number; numbers count from 0
  /// @pre !is_full() @throws std::bad_alloc; the layer is not added then
  std::uint32_t add(Layer layer);

  const Choice& choice(std::uint32_t layer) const { return states_[layer].choice; }
  /// Changes whenever the layer's choice does.
  std::uint32_t version(std::uint32_t layer) const { return states_[layer].version; }

  /// Begins a step; changes choices where it is time.
  /// @param last The largest growth of the step before; null when there was none.
  virtual void begin_step(std::uint64_t step, const Footprint* last) = 0;

  /// What the looks of the current step shall measure.
  virtual Wants wants() const = 0;
  /// Called for each entry of `layer`. How many bytes of its exact values the stash shall keep
  /// until backward reads them, for trials: all, a part (part_to_keep()), or 0 if it is not tried.
  /// On a device all are kept if any.
  /// @param peak Bytes of the activations at their peak, uncompressed
  virtual std::size_t tries(std::uint32_t layer, std::size_t peak);

  /// How many bytes of exact values the guard may keep in a step; nothing: there is no limit.
  virtual std::optional<std::size_t> room_for_guard() const { return std::nullopt; }

  /// Whether choices follow from trials; the guard then limits errors of gradients, not of values.
  virtual bool tries_choices() const noexcept { return false; }

  /// Indices into the layer's menu that trials shall cover.
  virtual std::vector<std::uint32_t> trials(std::uint32_t layer) const;

  virtual void observe(std::uint32_t layer, Look look) = 0;

  /// Tells the director the encoded size of one activation of the layer, held by its choice.
  virtual void note_size(std::uint32_t layer, std::size_t bytes);

  /// Whether the sizes that begin_step() gets affect any choice.
  virtual bool goes_by_sizes() const noexcept { return true; }

  /// The step numbers for the two steps of a dry run.
  virtual Rehearsal rehearsal() const { return {}; }

  /// What was learned so far, for a later run's resume().
  LearnedState learned() const;

  /// Takes up the state of an earlier run: a layer that is added later begins with what is saved
  /// under its name, except what does not fit it. @return why `state` can't be used at all, or ""
  /// @pre no layer was added yet
  std::string resume(LearnedState state);

  /// Whether a choice was changed, or a layer was added, since the last call.
  bool take_news() noexcept {
    const std::uint64_t now = changes_ + states_.size();
    return std::exchange(news_taken_, now) != now;
  }

  /// How often the choice of a known layer changed.
  std::uint64_t changes() const noexcept { return changes_; }

  /// A line for the user about something that could not be done as asked; "" when there is none.
  /// Each line is returned once.
  std::string take_message();

 protected:
  struct State {
    Layer layer;
    Choice choice;
    std::uint32_t version = 0;
  };
  /// @param policy The policy's name
  explicit Director(std::string policy) : policy_(std::move(policy)) {}

  /// The first choice for a new layer. May be called again for its number after add() threw.
  virtual Choice first_choice(std::uint32_t layer) = 0;
  void choose(std::uint32_t layer, Choice choice);

  /// The numbers that learned() saves for a layer, beside its choice, and for the whole policy.
  virtual Numbers numbers(std::uint32_t layer) const;
  virtual Numbers numbers() const;
  /// Restores these numbers; missing ones change nothing. For a layer, first_choice() was called
  /// before; afterwards the layer gets its saved choice if that is in its menu as it is then.
  virtual void recall(std::uint32_t layer, const Numbers& numbers);
  virtual void recall(const Numbers& numbers);

  void say(std::string message);

  std::vector<State> states_;

 private:
  void begin(std::uint32_t number);

  std::string policy_;
  std::vector<std::string> names_;             // by number
  std::map<std::string, std::uint32_t> seen_;  // count of layers by name without place
  LearnedState before_;
  std::uint64_t changes_ = 0;
  std::uint64_t news_taken_ = 0;  // changes and layers when take_news was last asked
  std::string message_;
};

/// The director of `settings.policy`; null for policies that never adapt. algorithms/ has it.
std::unique_ptr<Director> make_director(const Settings& settings);

/// A director that only numbers layers; all are kept raw.
std::unique_ptr<Director> make_keeping_director();

}  // namespace cinch::policy
