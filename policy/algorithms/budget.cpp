// SPDX-License-Identifier: Apache-2.0
// The policy "budget", the least gradient variance within so many bytes: docs/adaptive-policies.md
// says what a plan costs and what may be chosen.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>

#include "policy/adapting/part.h"
#include "policy/algorithms/budget_menu.h"
#include "policy/algorithms/derivation_plan.h"
#include "policy/algorithms/knapsack.h"
#include "policy/algorithms/layer_noise.h"
#include "policy/algorithms/lines.h"
#include "policy/algorithms/weight_hits.h"
#include "policy/policy.h"

namespace cinch::policy {
namespace {

// A new plan is taken when it is better by this share, so that noise in measurements changes
// nothing, and at least this many steps after the last plan unless the budget is exceeded.
constexpr double worthwhile = 0.05;
constexpr std::uint64_t steps_of_rest = 10;

// Number of first steps in each of which layers that were never tried may be tried.
constexpr std::uint64_t settling_steps = 40;
// After the first round a layer that was never tried is waited for if it returned within so many
// steps. Those of the first step are gone once entries are derived; others come once, in a proof.
constexpr std::uint64_t steps_to_return = 2;
// Bytes of layers tried in one step: the activations' bytes divided by this.
constexpr std::size_t trial_share = 16;
// Exact values that trials may keep in one step, and the guard's looks: the budget divided by this,
// each. Plans leave room for both.
constexpr double room_share = 32;
// The same for layers tried again in one interval: what layers tolerate changes slowly, and a trial
// costs several times the backward of its node.
constexpr std::size_t again_share = 10;
// A layer that was tried so often in a row without a result is given up: its node can't run twice.
constexpr std::uint32_t most_vain = 4;
// The largest ratio of stored to planned bytes that is believed.
constexpr double most_overhead = 4;
// Plans may take so many times the fewest bytes that can be where the budget can't be met, and
// where a ratio is asked for: the last fifth costs more quality than all before it.
constexpr double above_least = 1.2;
// Relative variance of the gradients, as planned, up to which bits are worth less than the time of
// what is slow to compute. A mini-batch's own variance is a hundred times as large.
constexpr double harmless = 0.01;

std::string size_text(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", bytes / (1 << 20));
  return text;
}

class Budget final : public Director {
 public:
  explicit Budget(const Settings& settings)
      : Director(settings.policy), all_settings_(settings), settings_(all_settings_.budget) {}

  std::vector<Choice> menu(const Layer& layer) const override {
    return budget_menu(layer, all_settings_);
  }

  bool tries_choices() const noexcept override { return true; }

  void begin_step(std::uint64_t step, const Footprint* last) override {
    step_ = step;
    take_shares();
    if (last != nullptr) take(*last);
    const bool over = last != nullptr && static_cast<double>(last->stored_bytes) >
                                             std::max(capacity(*last), unmet_bytes_);
    const bool rested = step >= planned_at_ + steps_of_rest || planned_at_ == 0;
    if (footprint_.raw_bytes != 0 && (over || (news_ && rested))) plan(step, over);
    tell_least(step);
    tried_bytes_ = kept_bytes_ = 0;
    const std::uint64_t within = step % settings_.every_steps;
    trying_ = step > 0 && (trying_anew(step) || within < round_steps_);
    if (within == 0) begin_round();
  }

  Wants wants() const override {
    Wants wants;
    wants.trials = wants.weights = trying_;
    return wants;
  }

  std::size_t tries(std::uint32_t number, std::size_t peak) override {
    Known& known = known_[number];
    known.last_seen = step_;
    if (!trying_) return 0;
    if (known.round == round_ && !known.is_untried()) return 0;
    if (known.vain == most_vain) return 0;
    const Layer& layer = states_[number].layer;
    const std::size_t bytes = layer.raw_bytes;
    if (tried_bytes_ != 0 && tried_bytes_ + bytes > peak / trial_share) return 0;
    std::size_t kept = bytes;
    if (const auto room = this->room(); room && !layer.on_device) {
      kept = part_to_keep(bytes, *room);
      if (kept == 0 || kept_bytes_ + kept > *room) return 0;
    }
    if (!known.is_untried()) {
      if (tried_again_ != 0 && tried_again_ + bytes > peak / again_share) return 0;
      tried_again_ += bytes;
    }
    tried_bytes_ += bytes;
    kept_bytes_ += kept;
    ++known.vain;
    return kept;
  }

  std::optional<std::size_t> room_for_guard() const override { return room(); }

  std::vector<std::uint32_t> trials(std::uint32_t number) const override {
    const Layer& layer = states_[number].layer;
    std::vector<std::uint32_t> indices;
    bool grouped_seen = false;
    for (std::uint32_t i = 0; i < layer.menu.size(); ++i) {
      const Choice& choice = layer.menu[i];
      if (choice.action != Choice::Action::encode) continue;
      if (is_single(choice)) {
        // Not tried again if its errors are above the guard's limit.
        const LayerNoise& noise = known_[number].noise;
        if (noise.tries() == 0 || noise.takes_single(guard())) indices.push_back(i);
        continue;
      }
      const bool division = keeps_means(choice);
      if (division ? choice.spec.bits == LayerNoise::reference_bits : !grouped_seen)
        indices.push_back(i);
      grouped_seen = grouped_seen || !division;
    }
    return indices;
  }

  // Trials begin in step 1. It also plans for the footprint of step 0, so that the next plan waits
  // `steps_of_rest` steps.
  Rehearsal rehearsal() const override { return {1, 1 + steps_of_rest}; }

  void observe(std::uint32_t number, Look look) override {
    Known& known = known_[number];
    if (look.share_of_sum > 0) {
      known.share_of_sum += known.summed ? news * (look.share_of_sum - known.share_of_sum)
                                         : look.share_of_sum - known.share_of_sum;
      known.summed = true;
      return;
    }
    const Layer& layer = states_[number].layer;
    if (look.trials.empty() && std::isfinite(look.weight_gradient)) {
      known.looked += look.weight_gradient;  // several weights may read the layer
    }
    if (!known.noise.follow(look, layer)) return;
    if (std::isfinite(look.own_gradient)) known.tried = std::max(known.tried, look.own_gradient);
    known.round = round_;
    known.vain = 0;
    news_ = true;
  }

 private:
  struct Known {
    LayerNoise noise;
    double share = 0;         // see HitLayer
    double share_of_sum = 1;  // likewise
    bool summed = false;      // whether `share_of_sum` was measured
    double looked = 0;        // squared size of its weights' gradients in this step, by looks
    double tried = 0;         // the same, by trials
    std::uint32_t round = 0;
    std::uint32_t vain = 0;        // trials in a row that gave no result
    std::uint64_t first_seen = 0;  // the first and the last step that had the layer
    std::uint64_t last_seen = 0;
    // What the last step showed, if it computed the layer from others.
    bool derivable = false;
    bool slow_to_derive = false;
    std::size_t derived_bytes = 0;
    std::vector<std::uint32_t> sources = {};

    bool is_untried() const { return noise.tries() == 0; }
  };

  const GuardSettings& guard() const noexcept { return all_settings_.guard; }

  Numbers numbers(std::uint32_t number) const override {
    const Known& known = known_[number];
    Numbers numbers = known.noise.numbers();
    if (numbers.empty()) return numbers;
    numbers["share"] = known.share;
    numbers["share_of_sum"] = known.share_of_sum;
    return numbers;
  }
  Numbers numbers() const override { return {{"overhead", overhead_}}; }
  void recall(std::uint32_t number, const Numbers& numbers) override {
    Known& known = known_[number];
    known.noise.recall(numbers);
    take_number(numbers, "share", known.share);
    take_number(numbers, "share_of_sum", known.share_of_sum);
    known.share_of_sum = std::min(known.share_of_sum, 1.0);
    known.summed = numbers.contains("share_of_sum");
    known.round = 1;  // as if the first round of trials had tried it
  }
  void recall(const Numbers& numbers) override {
    take_number(numbers, "overhead", overhead_);
    overhead_ = std::clamp(overhead_, 1.0, most_overhead);
    planned_at_ = 1;  // the restored choices count as a plan
  }

  Choice first_choice(std::uint32_t number) override {
    const Layer& layer = states_[number].layer;
    known_.erase(known_.begin() + number, known_.end());
    known_.push_back({.noise = LayerNoise(layer.kind), .first_seen = step_});
    news_ = true;
    return budget_start(layer, all_settings_);
  }

  double capacity(const Footprint& footprint) const {
    if (settings_.peak_bytes != 0) return static_cast<double>(settings_.peak_bytes);
    return static_cast<double>(footprint.raw_bytes) / settings_.ratio;
  }

  /// Bytes of exact values that trials may keep in this step. Nothing before the first footprint: a
  /// dry run holds all values anyway.
  std::optional<std::size_t> room() const {
    if (footprint_.raw_bytes == 0) return std::nullopt;
    return static_cast<std::size_t>(capacity(footprint_) / room_share);
  }

  /// Takes the footprint of the last step. Small changes of its bytes are no news.
  void take(const Footprint& last) {
    constexpr double small = 0.05;
    const auto before = static_cast<double>(footprint_.raw_bytes);
    const auto now = static_cast<double>(last.raw_bytes);
    const double other = std::abs(static_cast<double>(last.other_bytes) -
                                  static_cast<double>(footprint_.other_bytes));
    const bool moved = std::abs(now - before) > small * before ||
                       other > small * static_cast<double>(last.planned_bytes);
    take_derived(last);
    const double overhead = last.planned_bytes == 0
                                ? 1
                                : std::clamp(static_cast<double>(last.stored_bytes) /
                                                 static_cast<double>(last.planned_bytes),
                                             1.0, most_overhead);
    // What is stored besides what is planned is the raw window, mostly. `overhead_` rises at once,
    // and falls when `overhead` is clearly less.
    if (overhead > overhead_ || overhead < 0.9 * overhead_) {
      news_ = news_ || overhead > 1.02 * overhead_ || overhead < overhead_;
      overhead_ = overhead;
    }
    footprint_ = last;
    news_ = news_ || moved;
  }

  /// Takes which layers the last step computed from which. One that was to be computed, and was
  /// not, can't be: the guard found it too far off, or its signs have to be exact.
  void take_derived(const Footprint& last) {
    std::vector<bool> computed(known_.size());
    for (const Footprint::Derived& derived : last.derived) {
      Known& known = known_[derived.layer];
      news_ = news_ || !known.derivable;
      computed[derived.layer] = known.derivable = true;
      known.derived_bytes = derived.bytes;
      known.slow_to_derive = derived.is_slow;
      known.sources = derived.sources;
    }
    for (const std::uint32_t number : last.layers) {
      if (!states_[number].choice.derived || computed[number]) continue;
      news_ = news_ || known_[number].derivable;
      known_[number].derivable = false;
    }
  }

  /// Whether the first steps are still under way and some layer was never tried: any in the first
  /// round, later one that returns.
  bool trying_anew(std::uint64_t step) const {
    const auto is_awaited = [step](const Known& known) {
      const bool returns =
          known.last_seen > known.first_seen && step <= known.last_seen + steps_to_return;
      return known.is_untried() && known.vain < most_vain && (step < round_steps_ || returns);
    };
    return step < settling_steps && std::ranges::any_of(known_, is_awaited);
  }

  /// Begins an interval. Its trials go on where those of the last interval stopped. A new round
  /// begins when every layer was tried, or the last interval tried none again.
  void begin_round() {
    const bool done = std::ranges::all_of(
        known_, [this](const Known& k) { return k.round >= round_ || k.vain == most_vain; });
    if (done || tried_again_ == 0) ++round_;
    tried_again_ = 0;
  }

  /// Updates the layers' shares of gradients, each from one step, so that no loss scale matters.
  void take_shares() {
    double total = 0;
    for (const Known& known : known_) total += known.looked;
    for (Known& known : known_) {
      const double found = std::max(std::exchange(known.looked, 0), std::exchange(known.tried, 0));
      if (!(total > 0) || !(found > 0)) continue;
      const double share = found / total;
      known.share = known.share > 0 ? known.share + news * (share - known.share) : share;
    }
  }

  /// Size and cost of holding a layer by an item of its menu. The cost is relative variance of the
  /// parameters' gradients, and time.
  KnapsackOption option(std::uint32_t number, std::uint32_t index, const Noise& hit) const {
    const Layer& layer = states_[number].layer;
    const Known& known = known_[number];
    const Choice& choice = layer.menu[index];
    if (is_single(choice) && !known.noise.takes_single(guard())) return not_an_option;
    constexpr double lossless_share = 0.85;  // exponent_pack on dense float32
    const auto raw = static_cast<double>(layer.raw_bytes);
    double size = std::min(static_cast<double>(layer.menu_bytes[index]), raw);
    if (choice.derived) {
      return {static_cast<double>(known.derived_bytes),
              settings_.variance_per_second * seconds_of(choice, raw, raw)};
    }
    if (choice.action == Choice::Action::keep) size = raw;
    if (choice.action == Choice::Action::lossless) size = lossless_share * raw;
    const double cost =
        known.noise.of(choice, hit) + settings_.variance_per_second * seconds_of(choice, raw, size);
    return {choice.offload ? 0 : size, cost};
  }

  /// The layers of the footprint as a plan sees them, and what computing one from others costs.
  struct Problem {
    std::vector<PlannedLayer> layers;
    DerivedCost derived_cost;
  };
  /// @param computes_slow Whether what is slow to compute may be computed too
  Problem problem(bool computes_slow) const {
    std::vector<HitLayer> places;
    std::map<std::uint32_t, std::size_t> index;
    for (const std::uint32_t number : footprint_.layers) {
      index.emplace(number, places.size());
      const Known& known = known_[number];
      places.push_back({states_[number].layer.kind, known.share, known.share_of_sum});
    }
    const std::vector<Noise> hits = weight_hits(places);
    Problem problem;
    for (std::size_t i = 0; i < footprint_.layers.size(); ++i) {
      problem.layers.push_back(planned(footprint_.layers[i], hits[i], index, computes_slow));
    }
    problem.derived_cost = [this, hits](std::size_t derived, std::size_t source, std::size_t j) {
      const std::uint32_t number = footprint_.layers[derived];
      const Choice& held = states_[footprint_.layers[source]].layer.menu[j];
      const LayerNoise& noise = known_[number].noise;
      if (is_single(held) && !noise.takes_single(guard())) return not_an_option.cost;
      return noise.of(held, hits[derived]);
    };
    return problem;
  }

  PlannedLayer planned(std::uint32_t number, const Noise& hit,
                       const std::map<std::uint32_t, std::size_t>& index,
                       bool computes_slow) const {
    PlannedLayer layer;
    const std::vector<Choice>& menu = states_[number].layer.menu;
    const Known& known = known_[number];
    const bool derives = known.derivable && (computes_slow || !known.slow_to_derive);
    for (std::uint32_t i = 0; i < menu.size(); ++i) {
      const bool excluded = menu[i].derived && !derives;
      layer.options.push_back(excluded ? not_an_option : option(number, i, hit));
      if (menu[i].derived && derives) layer.derived = i;
    }
    for (const std::uint32_t source : known.sources) {
      if (const auto found = index.find(source); found != index.end()) {
        layer.sources.push_back(found->second);
      }
    }
    return layer;
  }

  /// Layers of the footprint that can be computed, but slowly.
  std::vector<std::uint32_t> slow_layers() const {
    std::vector<std::uint32_t> slow;
    std::ranges::copy_if(footprint_.layers, std::back_inserter(slow), [this](std::uint32_t number) {
      return known_[number].derivable && known_[number].slow_to_derive;
    });
    return slow;
  }

  void plan(std::uint64_t step, bool over) {
    news_ = false;
    // What is slow to compute is stored where that is about as good, and stays so a little longer.
    const std::vector<std::uint32_t> slow = slow_layers();
    const bool stores_slow = std::ranges::any_of(
        slow, [this](std::uint32_t number) { return !states_[number].choice.derived; });
    Problem problem = this->problem(/*computes_slow=*/slow.empty());
    const auto best_within = [&problem](double bytes) {
      return plan_with_derivation(problem.layers, bytes, problem.derived_cost);
    };
    const auto is_harmless = [stores_slow](const Selection& plan) {
      return plan.fits && plan.cost <= harmless * (stores_slow ? 2 : 1);
    };
    Selection best = best_within(capacity_for_entries());
    if (!slow.empty() && !is_harmless(best)) {
      problem = this->problem(/*computes_slow=*/true);
      best = best_within(capacity_for_entries());
    }
    const double asked = capacity(footprint_);
    const double least = is_harmless(best) ? 0 : overall(best_within(0).size);
    const double enough = above_least * least;
    const bool is_met = best.fits || least <= asked;  // without room for trials
    const bool is_near = asked < enough;
    least_bytes_ = is_near ? least : 0;
    // Who names bytes gets them.
    unmet_bytes_ = is_near && (settings_.peak_bytes == 0 || !is_met) ? enough : 0;
    if (unmet_bytes_ != 0) best = best_within(for_entries(unmet_bytes_));
    const bool current_fits = planned_at_ != 0 && !over;
    if (current_fits && !(best.cost < (1 - worthwhile) * cost_as_chosen(problem))) return;
    planned_at_ = std::max<std::uint64_t>(step, 1);
    for (std::size_t i = 0; i < footprint_.layers.size(); ++i) {
      const std::uint32_t number = footprint_.layers[i];
      choose(number, states_[number].layer.menu[best.chosen[i]]);
    }
  }

  /// Says once that the budget can't be met, or that this would cost quality. The fewest possible
  /// bytes are not known until layers were tried.
  void tell_least(std::uint64_t step) {
    if (said_ || least_bytes_ == 0 || step <= round_steps_ || trying_anew(step)) return;
    said_ = true;
    const double asked = capacity(footprint_);
    const std::string least = size_text(least_bytes_) + " is the least that " +
                              size_text(static_cast<double>(footprint_.raw_bytes)) +
                              " of activations can be held in; ";
    if (unmet_bytes_ == 0) {
      say("budget: " + size_text(asked) + " costs quality: " + least +
          size_text(above_least * least_bytes_) + " would cost little");
      return;
    }
    const bool is_less = asked < least_bytes_;
    say("budget: " + size_text(asked) + (is_less ? " can't be met: " : " would cost quality: ") +
        least + "going on with up to " + size_text(unmet_bytes_) +
        ", since the last bytes cost the most quality");
  }

  /// What is stored in all where a plan's entries take `bytes`.
  double overall(double bytes) const {
    return (bytes + static_cast<double>(footprint_.other_bytes)) * overhead_;
  }

  /// The reverse.
  double for_entries(double bytes) const {
    return bytes / overhead_ - static_cast<double>(footprint_.other_bytes);
  }

  /// What a plan's entries may take, with room for trials and looks.
  double capacity_for_entries() const {
    return for_entries(capacity(footprint_) * (1 - 2 / room_share));
  }

  /// The cost of the layers' choices in force.
  double cost_as_chosen(const Problem& problem) const {
    std::vector<std::uint32_t> chosen;
    for (const std::uint32_t number : footprint_.layers) {
      const State& state = states_[number];
      const auto found = std::ranges::find(state.layer.menu, state.choice);
      if (found == state.layer.menu.end()) return not_an_option.cost;
      chosen.push_back(static_cast<std::uint32_t>(found - state.layer.menu.begin()));
    }
    return cost_of(problem.layers, chosen, problem.derived_cost);
  }

  const Settings all_settings_;
  const BudgetSettings& settings_;
  std::vector<Known> known_;
  Footprint footprint_;
  double overhead_ = 1;
  double least_bytes_ = 0;  // the fewest bytes that can be, where the budget is near; else 0
  double unmet_bytes_ = 0;  // what is stored at most where the budget is not met; 0: it is
  bool news_ = false;
  bool said_ = false;
  bool trying_ = false;
  std::uint64_t step_ = 0;
  std::uint64_t planned_at_ = 0;  // 0: never
  std::uint32_t round_ = 0;
  std::size_t tried_bytes_ = 0;  // in this step
  std::size_t kept_bytes_ = 0;   // exact values of these
  std::size_t tried_again_ = 0;  // in this interval
  static constexpr std::uint64_t round_steps_ = 20;
};

}  // namespace

std::unique_ptr<Director> make_budget_director(const Settings& settings) {
  return std::make_unique<Budget>(settings);
}

}  // namespace cinch::policy
