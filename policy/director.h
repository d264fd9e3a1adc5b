// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policy/layer.h"
#include "policy/look.h"
#include "policy/policy.h"

namespace cinch::policy {

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

  /// A layer that was not seen before. @return its number, from 0 in order
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

  /// Indices into the layer's menu that trials shall cover.
  virtual std::vector<std::uint32_t> trials(std::uint32_t layer) const;

  virtual void observe(std::uint32_t layer, Look look) = 0;

  /// A line for people about something that went differently than asked; "" when there is none.
  /// Each is returned once.
  std::string take_message();

 protected:
  struct State {
    Layer layer;
    Choice choice;
    std::uint32_t version = 0;
  };
  Director() = default;

  /// The first choice for a new layer.
  virtual Choice first_choice(std::uint32_t layer) = 0;
  void choose(std::uint32_t layer, Choice choice);
  void say(std::string message);

  std::vector<State> states_;

 private:
  std::string message_;
};

/// The director of `settings.policy`; null for policies that never adapt.
std::unique_ptr<Director> make_director(const Settings& settings);

// The policies, in a file each.
std::unique_ptr<Director> make_actnn_director(const Settings& settings);
std::unique_ptr<Director> make_acgc_director(const Settings& settings);
std::unique_ptr<Director> make_comet_director(const Settings& settings);
std::unique_ptr<Director> make_budget_director(const Settings& settings);

}  // namespace cinch::policy
