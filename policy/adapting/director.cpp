// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/director.h"

#include <algorithm>
#include <utility>

namespace cinch::policy {
namespace {

/// Whether `layer` may be held as `choice`, which may come from a file.
bool suits(const Layer& layer, const Choice& choice) {
  const auto& bounds = choice.channel_bounds;
  if (bounds && static_cast<std::int64_t>(bounds->size()) != layer.channels) return false;
  return layer.menu.empty() || std::ranges::find(layer.menu, choice) != layer.menu.end();
}

class Keeping final : public Director {
 public:
  Keeping() : Director("keep") {}
  void begin_step(std::uint64_t, const Footprint*) override {}
  Wants wants() const override { return {}; }
  void observe(std::uint32_t, Look) override {}

 private:
  Choice first_choice(std::uint32_t) override { return {}; }
};

}  // namespace

std::vector<Choice> Director::menu(const Layer&) const {
  return {};
}

std::size_t Director::tries(std::uint32_t, std::size_t) {
  return 0;
}

std::vector<std::uint32_t> Director::trials(std::uint32_t) const {
  return {};
}

void Director::note_size(std::uint32_t, std::size_t) {}

std::uint32_t Director::add(Layer layer) {
  const auto number = static_cast<std::uint32_t>(states_.size());
  std::string name = layer.op + ' ' + layer.operand + ' ' + std::to_string(layer.raw_bytes);
  std::uint32_t& place = seen_[name];
  name += " #" + std::to_string(place + 1);
  try {
    names_.push_back(std::move(name));
    states_.push_back({std::move(layer), {}, 0});
    begin(number);
  } catch (...) {
    names_.resize(number);
    if (states_.size() > number) states_.pop_back();
    throw;
  }
  ++place;
  return number;
}

void Director::begin(std::uint32_t number) {
  State& state = states_[number];
  state.choice = first_choice(number);
  if (is_full()) {
    say("policy " + policy_ + ": " + std::to_string(most_layers) +
        " layers were seen, as shapes do not repeat: it decides about no further ones");
  }
  const auto known = before_.layers.find(names_[number]);
  if (known == before_.layers.end()) return;
  recall(number, known->second.numbers);
  if (suits(state.layer, known->second.choice)) state.choice = known->second.choice;
}

LearnedState Director::learned() const {
  LearnedState state{policy_, {}, numbers()};
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    state.layers[names_[i]] = {states_[i].choice, numbers(i)};
  }
  // Layers that this run did not see are kept, as far as there is room.
  for (const auto& [name, layer] : before_.layers) {
    if (state.layers.size() >= most_layers) break;
    state.layers.try_emplace(name, layer);
  }
  return state;
}

std::string Director::resume(LearnedState state) {
  if (state.policy != policy_) {
    return "found what policy \"" + state.policy + "\" learned, expected \"" + policy_ + "\"";
  }
  before_ = std::move(state);
  recall(before_.numbers);
  return "";
}

Numbers Director::numbers(std::uint32_t) const {
  return {};
}
Numbers Director::numbers() const {
  return {};
}
void Director::recall(std::uint32_t, const Numbers&) {}
void Director::recall(const Numbers&) {}

void Director::choose(std::uint32_t layer, Choice choice) {
  State& state = states_[layer];
  if (choice == state.choice) return;
  state.choice = std::move(choice);
  ++state.version;
  ++changes_;
}

void Director::say(std::string message) {
  message_ = std::move(message);
}

std::string Director::take_message() {
  return std::exchange(message_, {});
}

std::unique_ptr<Director> make_keeping_director() {
  return std::make_unique<Keeping>();
}

}  // namespace cinch::policy
