// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policy/layer.h"
#include "policy/look.h"
#include "policy/policy.h"

namespace cinch::policy {

/// Figures that a policy goes by, by names of its own.
using Numbers = std::map<std::string, double>;

/// Numbers of two steps with which a policy comes to its choices soonest: it looks in the first,
/// and has chosen when the second begins.
struct Rehearsal {
  std::uint64_t learning = 0;
  std::uint64_t use = 1;
};

struct LearnedLayer {
  Choice choice;
  Numbers numbers;
};

/// What a policy learned in a run. Layers are named by what they are: operator, operand, size, and
/// which of that kind they are in the order in which they were added.
struct LearnedState {
  std::string policy;
  std::map<std::string, LearnedLayer> layers;
  Numbers numbers;
};

/// An adaptive policy at work: it learns of layers, is shown what training does to them, and says
/// how each shall be held. Deterministic: the same calls give the same choices. Not thread-safe.
///
/// Steps are the program's optimizer steps as the stash counts them. Choices change in `begin_step`
/// and `add` only, so never within a step for a layer that is known.
class Director {
 public:
  virtual ~Director() = default;
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  /// The layer of a number that `add` gave.
  const Layer& layer(std::uint32_t number) const { return states_[number].layer; }
  std::size_t layers() const noexcept { return states_.size(); }

  /// What layers of this kind may be held as; the stash tells each one's bytes by
  /// `Layer::menu_bytes`.
  virtual std::vector<Choice> menu(const Layer& layer) const;

  /// Layers that are told apart. Each costs memory and time in every step, and a program whose
  /// shapes never repeat has new ones for ever.
  static constexpr std::size_t most_layers = 8192;
  bool is_full() const noexcept { return states_.size() >= most_layers; }

  /// A layer that was not seen before. @return its number, from 0 in order @pre !is_full()
  /// @throws std::bad_alloc: the layer was not added then
  std::uint32_t add(Layer layer);

  const Choice& choice(std::uint32_t layer) const { return states_[layer].choice; }
  /// Changes whenever the layer's choice does.
  std::uint32_t version(std::uint32_t layer) const { return states_[layer].version; }

  /// A step begins: choices are made anew where it is time.
  /// @param last The largest growth of the step before; null when there was none.
  virtual void begin_step(std::uint64_t step, const Footprint* last) = 0;

  /// What the step that began last shall find out.
  virtual Wants wants() const = 0;
  /// Whether exact values of `layer` shall be kept until backward reads them, for trials.
  /// @param peak Bytes of the activations at their peak, uncompressed
  virtual bool tries(std::uint32_t layer, std::size_t peak);

  /// Whether choices follow from trials, so that their errors count by what they do to gradients.
  virtual bool tries_choices() const noexcept { return false; }

  /// Indices into the layer's menu that trials shall cover.
  virtual std::vector<std::uint32_t> trials(std::uint32_t layer) const;

  virtual void observe(std::uint32_t layer, Look look) = 0;

  /// What the layer's choice is expected to take where the data decide; 0: not known.
  virtual std::size_t expected_bytes(std::uint32_t layer) const;

  /// An activation of the layer took so many bytes, held by its choice.
  virtual void note_size(std::uint32_t layer, std::size_t bytes);

  /// Whether what begin_step() is told of sizes decides anything.
  virtual bool goes_by_sizes() const noexcept { return true; }

  /// For dry runs, which last two steps: what they shall be given for step numbers.
  virtual Rehearsal rehearsal() const { return {}; }

  /// What was learned so far, for a later run's resume().
  LearnedState learned() const;

  /// Layers added from now on begin where those of the same name ended. What does not fit a layer
  /// is left out. @return why nothing of `state` can be used, or ""
  /// @pre no layer was added yet
  std::string resume(LearnedState state);

  /// Whether a choice was changed, or a layer was added, since this was last asked.
  bool take_news() noexcept {
    const std::uint64_t now = changes_ + states_.size();
    return std::exchange(news_taken_, now) != now;
  }

  /// How often the choice of a layer that was known changed.
  std::uint64_t changes() const noexcept { return changes_; }

  /// A line for people about something that went differently than asked; "" when there is none.
  /// Each is returned once.
  std::string take_message();

 protected:
  struct State {
    Layer layer;
    Choice choice;
    std::uint32_t version = 0;
  };
  /// @param policy The policy's name
  explicit Director(std::string policy) : policy_(std::move(policy)) {}

  /// The first choice for a new layer. May be asked again for a number when there was no memory.
  virtual Choice first_choice(std::uint32_t layer) = 0;
  void choose(std::uint32_t layer, Choice choice);

  /// What a layer's choice came from, beside the choice; and of the policy as a whole.
  virtual Numbers numbers(std::uint32_t layer) const;
  virtual Numbers numbers() const;
  /// Takes them up again; `layer` was given its first choice before, and gets the one it ended with
  /// afterwards if that is in its menu then. What is missing stays as it was.
  virtual void recall(std::uint32_t layer, const Numbers& numbers);
  virtual void recall(const Numbers& numbers);

  void say(std::string message);

  std::vector<State> states_;

 private:
  void begin(std::uint32_t number);

  std::string policy_;
  std::vector<std::string> names_;             // by number
  std::map<std::string, std::uint32_t> seen_;  // layers added so far, by name without number
  LearnedState before_;
  std::uint64_t changes_ = 0;
  std::uint64_t news_taken_ = 0;  // changes and layers when take_news was last asked
  std::string message_;
};

/// The director of `settings.policy`; null for policies that never adapt.
std::unique_ptr<Director> make_director(const Settings& settings);

/// One that only counts layers: all are kept as they are.
std::unique_ptr<Director> make_keeping_director();

}  // namespace cinch::policy
