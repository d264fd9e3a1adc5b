// SPDX-License-Identifier: Apache-2.0
// The policies "budget" (least gradient variance within so many bytes) and "auto" (least bytes
// within so much gradient variance): docs/policies.md says what is minimized and why.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "policy/director.h"
#include "policy/knapsack.h"
#include "policy/layer_noise.h"
#include "policy/policy.h"

namespace cinch::policy {
namespace {

// A new plan is taken when it is better by this share, so that noise in measurements changes
// nothing, and not sooner than that many steps after the last one unless the budget is exceeded.
constexpr double worthwhile = 0.05;
constexpr std::uint64_t steps_of_rest = 10;

// Steps in a row that may be used for trials of layers that were never tried.
constexpr std::uint64_t settling_steps = 40;
// Exact values kept for trials in one step, as a share of the activations' bytes.
constexpr std::size_t trial_share = 16;
// What is tried again in one interval, likewise: what layers tolerate changes slowly, and trials
// cost several times the backward of the nodes that are tried.
constexpr std::size_t again_share = 10;
// What is stored at most, as a multiple of what is planned, where that is believed.
constexpr double most_overhead = 4;
// Share of a sum of gradients below which a gradient is a branch's.
constexpr double most_of_branch = 0.9;
// Steps in each round in which the weights' gradients are followed, half of them until the moving
// averages are worth something.
constexpr std::uint64_t following_steps = 10;

/// Seconds that encoding and decoding a byte take on one core: figures of docs/benchmarks.md, not
/// measured here, because decisions that depend on a clock would not be repeatable.
double seconds_per_byte(const Choice& choice) noexcept {
  if (choice.action == Choice::Action::keep) return 0;
  if (choice.action == Choice::Action::lossless) return 0.60e-9;
  return choice.spec.name == "division" ? 0.14e-9 : 0.10e-9;
}

/// Copying a byte to the host's memory and back, by a PCIe 3 bus's 12 GB/s each way. As if nothing
/// else ran meanwhile: what the program computes beside it is not known.
constexpr double seconds_per_offloaded_byte = 2 / 12e9;

/// Larger and worse than anything: indices stay those of the menu.
constexpr KnapsackOption not_an_option = {1e18, 1e18};

bool has_weight(LayerKind kind) noexcept {
  return kind == LayerKind::convolution || kind == LayerKind::linear;
}

std::string size_text(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", bytes / (1 << 20));
  return text;
}

class Budget final : public Director {
 public:
  explicit Budget(const Settings& settings)
      : Director(settings.policy),
        settings_(settings.budget),
        division_(settings.division),
        guard_(settings.guard),
        least_offloaded_(settings.offload.min_bytes) {}

  std::vector<Choice> menu(const Layer& layer) const override {
    std::vector<Choice> menu;
    for (const int bits : {1, 2, 3, 4, 6, 8}) {
      if (bits >= least_measured_bits(layer.kind)) menu.push_back(grouped(bits));
    }
    if (is_feature_map(layer.kind)) {
      for (const int bits : {2, 4}) menu.push_back(divided(bits));
    }
    // What floats held losslessly take on a device is known too late to be weighed.
    if (!layer.on_device) menu.push_back({Choice::Action::lossless, {}, 0, {}});
    menu.push_back({});
    if (!settings_.offload || !layer.on_device || layer.raw_bytes < least_offloaded_) return menu;
    for (const int bits : {4, 8}) {
      if (bits >= least_measured_bits(layer.kind)) menu.push_back(offloaded(grouped(bits)));
    }
    menu.push_back(offloaded({}));
    return menu;
  }

  bool tries_choices() const noexcept override { return true; }

  void begin_step(std::uint64_t step, const Footprint* last) override {
    take_shares();
    if (last != nullptr) take(*last);
    const bool over = last != nullptr && settings_.noise == 0 &&
                      static_cast<double>(last->stored_bytes) > capacity(*last);
    const bool rested = step >= planned_at_ + steps_of_rest || planned_at_ == 0;
    if (footprint_.raw_bytes != 0 && (over || (news_ && rested))) plan(step, over);
    tried_bytes_ = 0;
    const bool all_tried =
        std::ranges::all_of(known_, [](const Known& k) { return k.noise.tries() > 0; });
    const std::uint64_t within = step % settings_.every_steps;
    trying_ = step > 0 && ((step < settling_steps && !all_tried) || within < round_steps_);
    if (within == 0) begin_round();
    following_ = settings_.noise > 0 && (step < settling_steps || within < following_steps);
  }

  Wants wants() const override {
    Wants wants;
    wants.trials = trying_;
    wants.weights = trying_ || following_;
    wants.momentum = following_;
    return wants;
  }

  bool tries(std::uint32_t number, std::size_t peak) override {
    if (!trying_) return false;
    Known& known = known_[number];
    if (known.round == round_ && known.noise.tries() > 0) return false;
    const std::size_t bytes = states_[number].layer.raw_bytes;
    if (tried_bytes_ != 0 && tried_bytes_ + bytes > peak / trial_share) return false;
    if (known.noise.tries() > 0) {
      if (tried_again_ != 0 && tried_again_ + bytes > peak / again_share) return false;
      tried_again_ += bytes;
    }
    tried_bytes_ += bytes;
    return true;
  }

  std::vector<std::uint32_t> trials(std::uint32_t number) const override {
    const Layer& layer = states_[number].layer;
    std::vector<std::uint32_t> indices;
    bool grouped_seen = false;
    for (std::uint32_t i = 0; i < layer.menu.size(); ++i) {
      const Choice& choice = layer.menu[i];
      if (choice.action != Choice::Action::encode) continue;
      if (is_single(choice)) {
        // What the guard would object to is not worth trying again.
        const LayerNoise& noise = known_[number].noise;
        if (noise.tries() == 0 || noise.takes_single(guard_)) indices.push_back(i);
        continue;
      }
      const bool division = choice.spec.name == "division";
      if (division ? choice.spec.bits == LayerNoise::reference_bits : !grouped_seen)
        indices.push_back(i);
      grouped_seen = grouped_seen || !division;
    }
    return indices;
  }

  // Trials begin in the second step, and the plan that the first footprint asks for rests a while.
  Rehearsal rehearsal() const override { return {1, 1 + steps_of_rest}; }

  void observe(std::uint32_t number, Look look) override {
    Known& known = known_[number];
    if (look.gradient_noise > 0) {
      own_noise_ = own_noise_ > 0 ? own_noise_ + 0.05 * (look.gradient_noise - own_noise_)
                                  : look.gradient_noise;
    }
    if (look.share_of_sum > 0) {
      known.share_of_sum += known.summed ? news * (look.share_of_sum - known.share_of_sum)
                                         : look.share_of_sum - known.share_of_sum;
      known.summed = true;
      return;
    }
    const Layer& layer = states_[number].layer;
    if (look.trials.empty() && std::isfinite(look.weight_gradient)) {
      known.looked += look.weight_gradient;  // several weights may read it
    }
    if (!known.noise.follow(look, layer)) return;
    if (std::isfinite(look.own_gradient)) known.tried = std::max(known.tried, look.own_gradient);
    known.round = round_;
    news_ = true;
  }

 private:
  struct Known {
    LayerNoise noise;
    // The squared size of the parameters' gradients that are computed from it, as a share of all
    // weights'; 0 where that was not seen.
    double share = 0;
    // Of the gradient that it passes on among all that arrive where it goes.
    double share_of_sum = 1;
    bool summed = false;  // whether that was looked at
    double looked = 0;    // what the step under way found of it: by looks,
    double tried = 0;     // and by trials
    std::uint32_t round = 0;
  };

  Numbers numbers(std::uint32_t number) const override {
    const Known& known = known_[number];
    Numbers numbers = known.noise.numbers();
    if (numbers.empty()) return numbers;
    numbers["share"] = known.share;
    numbers["share_of_sum"] = known.share_of_sum;
    return numbers;
  }
  Numbers numbers() const override { return {{"own_noise", own_noise_}, {"overhead", overhead_}}; }
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
    take_number(numbers, "own_noise", own_noise_);
    take_number(numbers, "overhead", overhead_);
    overhead_ = std::clamp(overhead_, 1.0, most_overhead);
    planned_at_ = 1;  // what layers begin with is a plan
  }

  static Choice grouped(int bits) {
    Choice choice;
    choice.action = Choice::Action::encode;
    choice.spec.name = "group_quant";
    choice.spec.bits = bits;
    return choice;
  }

  static Choice offloaded(Choice choice) {
    choice.offload = true;
    return choice;
  }

  Choice divided(int bits) const {
    Choice choice;
    choice.action = Choice::Action::encode;
    choice.spec = division_;
    choice.spec.name = "division";
    choice.spec.bits = bits;
    return choice;
  }

  // What the measurements of docs/policies.md found harmless, before anything is known.
  Choice first_choice(std::uint32_t number) override {
    const Layer& layer = states_[number].layer;
    known_.push_back({.noise = LayerNoise(layer.kind)});
    news_ = true;
    if (settings_.noise == 0 && is_feature_map(layer.kind)) return divided(2);
    return grouped(std::max(4, least_measured_bits(layer.kind)));
  }

  double capacity(const Footprint& footprint) const {
    if (settings_.peak_bytes != 0) return static_cast<double>(settings_.peak_bytes);
    return static_cast<double>(footprint.raw_bytes) / settings_.ratio;
  }

  /// The largest growth of the last step. Small movements change nothing.
  void take(const Footprint& last) {
    constexpr double small = 0.05;
    const auto before = static_cast<double>(footprint_.raw_bytes);
    const auto now = static_cast<double>(last.raw_bytes);
    const bool moved = std::abs(now - before) > small * before;
    const double overhead = last.planned_bytes == 0
                                ? 1
                                : std::clamp(static_cast<double>(last.stored_bytes) /
                                                 static_cast<double>(last.planned_bytes),
                                             1.0, most_overhead);
    // What is stored besides what is planned (the raw window, mostly). Followed upwards at once,
    // downwards when it is clearly less.
    if (overhead > overhead_ || overhead < 0.9 * overhead_) {
      if (overhead > overhead_) news_ = news_ || overhead > 1.02 * overhead_;
      overhead_ = overhead;
    }
    if (moved) {
      footprint_ = last;
      news_ = true;
    }
  }

  /// An interval begins. Its trials go on where the last one's stopped, until every layer was
  /// tried, or nothing was.
  void begin_round() {
    const bool done =
        std::ranges::all_of(known_, [this](const Known& k) { return k.round >= round_; });
    if (done || tried_again_ == 0) ++round_;
    tried_again_ = 0;
  }

  /// Shares of gradients are those of one step, so that no loss scale matters.
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

  /// Sizes and costs of every entry's options. Costs are the relative variance of the parameters'
  /// gradients: an error in a parameter's own gradient counts for that parameter, one in a gradient
  /// that is passed on for all weights before it.
  std::vector<std::vector<KnapsackOption>> options(const std::vector<std::uint32_t>& layers) const {
    double weights = 0;
    double shares = 0;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!has_weight(states_[i].layer.kind)) continue;
      ++weights;
      shares += known_[i].share;
    }
    weights = std::max(weights, 1.0);
    const bool sizes_known = shares > 0;
    // What an error in the own gradient counts, and one in a gradient that is passed on.
    std::vector<double> own_hit;
    std::vector<double> passed_hit;
    double before = 0;
    // Weights before the branch that is under way, and what of its gradient arrives there: a
    // residual network adds it to that of the skip connection.
    double before_branch = 0;
    double share_of_branch = 1;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const bool weight = has_weight(states_[i].layer.kind);
      const double alike = weight ? 1 / weights : 0;
      const double sized = sizes_known ? known_[i].share / shares : alike;
      own_hit.push_back(share_by_size * sized + (1 - share_by_size) * alike);
      const Known& known = known_[i];
      const bool is_start = known.share_of_sum < most_of_branch;
      if (is_start || states_[i].layer.kind == LayerKind::layer_norm) {
        before_branch = before;
        share_of_branch = is_start ? known.share_of_sum : 1;
      }
      const double hit = before - before_branch + share_of_branch * before_branch;
      passed_hit.push_back(std::max(hit, 1 / weights));
      if (weight) before += own_hit.back();
    }
    std::vector<std::vector<KnapsackOption>> entries;
    for (const std::uint32_t number : layers) {
      const Layer& layer = states_[number].layer;
      std::vector<KnapsackOption> of_layer;
      for (std::size_t i = 0; i < layer.menu.size(); ++i) {
        const Choice& choice = layer.menu[i];
        if (is_single(choice) && !known_[number].noise.takes_single(guard_)) {
          of_layer.push_back(not_an_option);
          continue;
        }
        const auto raw = static_cast<double>(layer.raw_bytes);
        constexpr double lossless_share = 0.85;  // float_split on dense float32
        double size = std::min(static_cast<double>(layer.menu_bytes[i]), raw);
        if (choice.action == Choice::Action::keep) size = raw;
        if (choice.action == Choice::Action::lossless) size = lossless_share * raw;
        double seconds = raw * seconds_per_byte(choice);
        if (choice.offload) seconds += std::exchange(size, 0) * seconds_per_offloaded_byte;
        of_layer.push_back(
            {size, known_[number].noise.of(choice, {own_hit[number], passed_hit[number]}) +
                       settings_.variance_per_second * seconds});
      }
      entries.push_back(std::move(of_layer));
    }
    return entries;
  }

  void plan(std::uint64_t step, bool over) {
    news_ = false;
    const auto entries = options(footprint_.layers);
    const double room = capacity_for_entries();
    Selection best = settings_.noise > 0 ? least_bytes(entries) : choose_options(entries, room);
    Selection current = as_chosen(entries);
    const double limit = settings_.noise > 0 ? noise_limit() : room;
    const double used = settings_.noise > 0 ? current.cost : current.size;
    const double now = settings_.noise > 0 ? current.size : current.cost;
    const double then = settings_.noise > 0 ? best.size : best.cost;
    const bool current_fits = planned_at_ != 0 && used <= limit * 1.001;
    if (current_fits && !over && !(then < (1 - worthwhile) * now)) return;
    planned_at_ = std::max<std::uint64_t>(step, 1);
    for (std::size_t i = 0; i < footprint_.layers.size(); ++i) {
      const std::uint32_t number = footprint_.layers[i];
      choose(number, states_[number].layer.menu[best.chosen[i]]);
    }
    const double overall = (best.size + static_cast<double>(footprint_.other_bytes)) * overhead_;
    if (best.fits || settings_.noise > 0 || said_) return;
    said_ = true;
    say("budget: " + size_text(capacity(footprint_)) + " can't be met: " + size_text(overall) +
        " is the least that " + size_text(static_cast<double>(footprint_.raw_bytes)) +
        " of activations can be held in; going on with that");
  }

  double capacity_for_entries() const {
    return capacity(footprint_) / overhead_ - static_cast<double>(footprint_.other_bytes);
  }

  Selection as_chosen(const std::vector<std::vector<KnapsackOption>>& entries) const {
    Selection current;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const State& state = states_[footprint_.layers[i]];
      const auto it = std::ranges::find(state.layer.menu, state.choice);
      const auto index = static_cast<std::size_t>(it - state.layer.menu.begin());
      if (index == state.layer.menu.size()) continue;
      current.size += entries[i][index].size;
      current.cost += entries[i][index].cost;
    }
    return current;
  }

  double noise_limit() const {
    // Not measured yet: a mini-batch's gradient is mostly noise, except in the very beginning.
    constexpr double assumed = 0.5;
    return settings_.noise * (own_noise_ > 0 ? own_noise_ : assumed);
  }

  /// Bytes and cost change places.
  Selection least_bytes(const std::vector<std::vector<KnapsackOption>>& entries) const {
    std::vector<std::vector<KnapsackOption>> turned;
    for (const auto& options : entries) {
      auto& to = turned.emplace_back();
      for (const KnapsackOption& option : options) to.push_back({option.cost, option.size});
    }
    Selection selection = choose_options(turned, noise_limit());
    std::swap(selection.size, selection.cost);
    return selection;
  }

  BudgetSettings settings_;
  codecs::CodecSpec division_;
  GuardSettings guard_;
  std::size_t least_offloaded_;
  std::vector<Known> known_;
  Footprint footprint_;
  double overhead_ = 1;
  double own_noise_ = 0;
  bool news_ = false;
  bool said_ = false;
  bool trying_ = false;
  bool following_ = false;
  std::uint64_t planned_at_ = 0;  // 0: never
  std::uint32_t round_ = 0;
  std::size_t tried_bytes_ = 0;  // in this step
  std::size_t tried_again_ = 0;  // in this interval
  static constexpr std::uint64_t round_steps_ = 20;
};

}  // namespace

std::unique_ptr<Director> make_budget_director(const Settings& settings) {
  return std::make_unique<Budget>(settings);
}

}  // namespace cinch::policy
