// SPDX-License-Identifier: Apache-2.0
#include "policy/director.h"

#include <utility>

namespace cinch::policy {

std::vector<Choice> Director::menu(const Layer&) const {
  return {};
}

bool Director::tries(std::uint32_t, std::size_t) {
  return false;
}

std::vector<std::uint32_t> Director::trials(std::uint32_t) const {
  return {};
}

std::uint32_t Director::add(Layer layer) {
  const auto number = static_cast<std::uint32_t>(states_.size());
  states_.push_back({std::move(layer), {}, 0});
  states_.back().choice = first_choice(number);
  return number;
}

void Director::choose(std::uint32_t layer, Choice choice) {
  State& state = states_[layer];
  if (choice == state.choice) return;
  state.choice = std::move(choice);
  ++state.version;
}

void Director::say(std::string message) {
  message_ = std::move(message);
}

std::string Director::take_message() {
  return std::exchange(message_, {});
}

std::unique_ptr<Director> make_director(const Settings& settings) {
  if (settings.policy == "actnn") return make_actnn_director(settings);
  if (settings.policy == "acgc") return make_acgc_director(settings);
  if (settings.policy == "comet") return make_comet_director(settings);
  if (settings.policy == "budget" || settings.policy == "auto") {
    return make_budget_director(settings);
  }
  return nullptr;
}

}  // namespace cinch::policy
