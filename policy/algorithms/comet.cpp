// SPDX-License-Identifier: Apache-2.0
// COMET (Jin et al., VLDB 2022): docs/adaptive-policies.md.
#include <algorithm>
#include <utility>

#include "policy/algorithms/comet_bound.h"
#include "policy/algorithms/lines.h"

namespace cinch::policy {
namespace {

class Comet final : public Director {
 public:
  explicit Comet(const Settings& settings)
      : Director(settings.policy),
        settings_(settings.comet),
        schedule_(settings.comet.every_steps) {}

  bool goes_by_sizes() const noexcept override { return false; }

  void begin_step(std::uint64_t step, const Footprint*) override {
    evacuate();
    if (looking_) refresh(step);
    // The step before `next` looks, so that bounds are known when `next` begins.
    const std::uint64_t next = schedule_.next();
    following_ = step < next && step + settings_.momentum_steps >= next;
    looking_ = step + 1 == next;
  }

  Wants wants() const override {
    Wants wants;
    wants.momentum = following_;
    wants.gradients = wants.values = looking_;
    return wants;
  }

  void observe(std::uint32_t number, Look look) override {
    // A layer that a more sensitive operator also reads has that operator's kind.
    if (states_[number].layer.kind != LayerKind::convolution) return;
    if (look.kind != LayerKind::convolution) return;
    const CometLayer layer = {look.momentum, look.output_gradient, look.peak_gradient,
                              look.samples,  look.outputs,         look.nonzero};
    const double bound = settings_.paper_mode
                             ? comet_bound_paper(layer, settings_.fraction, settings_.a)
                             : comet_bound_exact(layer, settings_.fraction);
    double& found = found_[number];
    // The smallest bound of several convolutions that read the layer, or of several micro-batches.
    if (bound > 0) found = found > 0 ? std::min(found, bound) : bound;
  }

  void note_size(std::uint32_t number, std::size_t bytes) override {
    const Layer& layer = states_[number].layer;
    const double least = settings_.evacuate_below * static_cast<double>(bytes);
    if (layer.on_device && least > static_cast<double>(layer.raw_bytes)) poor_[number] = true;
  }

  Rehearsal rehearsal() const override { return {schedule_.next() - 1, schedule_.next()}; }

 private:
  Choice first_choice(std::uint32_t number) override {
    found_.resize(number + 1);
    bounds_.resize(number + 1);
    poor_.resize(number + 1);
    return {};
  }

  /// Moves layers that compress badly to the host's memory, until a refresh tries them again.
  void evacuate() {
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      if (!std::exchange(poor_[i], false)) continue;
      Choice choice = states_[i].choice;
      choice.offload = choice.action == Choice::Action::encode;
      choose(i, std::move(choice));
    }
  }

  void refresh(std::uint64_t step) {
    double moved = 1;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      const double bound = std::exchange(found_[i], 0);
      if (!(bound > 0)) continue;
      if (bounds_[i] > 0) moved = std::max({moved, bound / bounds_[i], bounds_[i] / bound});
      bounds_[i] = bound;
      constexpr double largest = 1e30;
      Choice choice;
      choice.action = Choice::Action::encode;
      choice.spec.name = "error_bounded_ratio";
      choice.spec.error_bound = static_cast<float>(std::min(bound, largest));
      if (choice.spec.error_bound > 0) choose(i, choice);
    }
    schedule_.refreshed(step, moved);
  }

  CometSettings settings_;
  RefreshSchedule schedule_;
  bool following_ = false;
  bool looking_ = false;
  std::vector<double> found_;
  std::vector<double> bounds_;
  std::vector<char> poor_;  // by layer: whether an activation took too many bytes
};

}  // namespace

std::string comet_words(const Settings& settings) {
  const CometSettings& c = settings.comet;
  return "COMET: inputs of convolutions are held by error_bounded_ratio within a bound that gives "
         "each weight's gradient an error of " +
         number_in_words(100 * c.fraction) + " % of its mean momentum" +
         (c.paper_mode ? " by the paper's Eqs. 3, 10 and 11 (a = " + number_in_words(c.a) + ")"
                       : "") +
         ". The first " + std::to_string(c.every_steps) +
         " steps are not compressed; bounds are refreshed every " + std::to_string(c.every_steps) +
         " steps, more often while they move by more than a factor of 2, from gradients averaged "
         "over " +
         std::to_string(c.momentum_steps) +
         " steps. Other activations stay as they are, unless a rule says otherwise." +
         (c.evacuate_below > 0
              ? " CUDA tensors that get less than " + number_in_words(c.evacuate_below) +
                    " times smaller move to the host's memory."
              : "");
}

std::unique_ptr<Director> make_comet_director(const Settings& settings) {
  return std::make_unique<Comet>(settings);
}

}  // namespace cinch::policy
