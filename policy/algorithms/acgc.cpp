// SPDX-License-Identifier: Apache-2.0
// AC-GC (Evans & Aamodt, NeurIPS 2021): docs/adaptive-policies.md.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "policy/algorithms/acgc_bounds.h"
#include "policy/algorithms/lines.h"

namespace cinch::policy {
namespace {

/// Whether Table 1 has bounds for all readers of a layer of this kind, which is the kind of the
/// layer's most sensitive reader.
bool has_bound(LayerKind kind) noexcept {
  return kind == LayerKind::convolution || kind == LayerKind::linear ||
         kind == LayerKind::batch_norm || kind == LayerKind::layer_norm;
}

class Acgc final : public Director {
 public:
  explicit Acgc(const Settings& settings) : Director(settings.policy), settings_(settings.acgc) {}

  bool goes_by_sizes() const noexcept override { return false; }

  void begin_step(std::uint64_t step, const Footprint*) override {
    if (looking_) {
      for (std::uint32_t i = 0; i < states_.size(); ++i) recalculate(i);
    }
    looking_ = step % settings_.every_steps == 0;
  }

  Wants wants() const override {
    Wants wants;
    wants.gradients = wants.values = looking_;
    return wants;
  }

  void observe(std::uint32_t number, Look look) override {
    Round& round = known_[number].round;
    switch (look.kind) {
      case LayerKind::convolution:
      case LayerKind::linear:
        round.terms.push_back(
            {look.weight_gradient, look.output_gradient, look.kernel, look.stride});
        break;
      case LayerKind::batch_norm:
        add_batch_norm(round, look, states_[number].layer);
        break;
      case LayerKind::layer_norm:
        round.take_least(acgc_layer_norm_bound({look.rows, look.features, look.row_input_gradient,
                                                look.row_sensitivity, look.least_variance},
                                               settings_.e2));
        break;
      default:
        round.unknown_reader = true;
    }
  }

 private:
  /// What one look found about a layer, over all nodes that read it.
  struct Round {
    std::vector<AcgcTerm> terms;
    double least = 0;  // smallest squared bound that holds for all channels; 0: none
    std::vector<double> by_channel;
    bool unknown_reader = false;

    void take_least(double bound) {
      if (bound > 0) least = least > 0 ? std::min(least, bound) : bound;
    }
  };
  struct Known {
    Round round;
    std::deque<std::vector<double>> bounds;  // of the last looks: one number, or one by channel
  };

  Choice first_choice(std::uint32_t number) override {
    known_.resize(number + 1);
    return {};  // uncompressed until statistics exist
  }

  void add_batch_norm(Round& round, const Look& look, const Layer& layer) {
    if (look.channels.empty()) {
      round.unknown_reader = true;
      return;
    }
    const auto channels = static_cast<double>(look.channels.size());
    const double count = static_cast<double>(layer.elements) / channels;
    double input_gradient = 0;
    std::vector<AcgcChannel> found;
    for (const Look::Channel& c : look.channels) {
      found.push_back({c.gamma, 1 / c.inverse_sigma, c.gamma_gradient, c.output_gradient});
      input_gradient += batch_norm_input_gradient(found.back(), c.gradient_sum, count);
    }
    std::vector<double> bounds;
    for (const AcgcChannel& c : found) {
      bounds.push_back(acgc_batch_norm_bound(c, input_gradient, count, channels, settings_.e2));
    }
    const bool by_channel = settings_.codec == AcgcSettings::Codec::quant ||
                            settings_.codec == AcgcSettings::Codec::quant_z;
    if (by_channel && layer.channels == static_cast<std::int64_t>(bounds.size()) &&
        round.by_channel.empty()) {
      round.by_channel = std::move(bounds);
      return;
    }
    // One bound for all channels: their errors add up to as much as with a bound for each.
    double inverse = 0;
    for (const double bound : bounds) inverse += bound > 0 ? 1 / bound : 0;
    if (inverse > 0) round.take_least(channels / inverse);
  }

  void recalculate(std::uint32_t number) {
    Known& known = known_[number];
    Round round = std::exchange(known.round, {});
    if (round.unknown_reader || !has_bound(states_[number].layer.kind)) {
      choose(number, {});  // a reader of the layer has no bound
      known.bounds.clear();
      return;
    }
    const Layer& layer = states_[number].layer;
    if (!round.terms.empty()) {
      const auto channels = static_cast<double>(std::max<std::int64_t>(layer.channels, 1));
      round.take_least(
          settings_.expected
              ? acgc_expected_bound(round.terms, channels, settings_.e2)
              : acgc_product_bound(round.terms, static_cast<double>(layer.elements), settings_.e2));
      if (!(round.least > 0) && round.by_channel.empty()) return;
    }
    std::vector<double> bounds = std::move(round.by_channel);
    if (bounds.empty() && round.least > 0) bounds = {round.least};
    if (bounds.empty()) return;
    if (round.least > 0) {
      for (double& bound : bounds) bound = std::min(bound, round.least);
    }
    if (!known.bounds.empty() && known.bounds.back().size() != bounds.size()) known.bounds.clear();
    known.bounds.push_back(std::move(bounds));
    if (known.bounds.size() > settings_.window) known.bounds.pop_front();
    choose(number, bounded(known.bounds));
  }

  /// The choice that applies the mean of the last looks' squared bounds.
  Choice bounded(const std::deque<std::vector<double>>& looks) const {
    std::vector<float> bounds(looks.front().size());
    for (std::size_t c = 0; c < bounds.size(); ++c) {
      double sum = 0;
      for (const auto& look : looks) sum += look[c];
      const double bound = std::sqrt(sum / static_cast<double>(looks.size()));
      constexpr double smallest = 1e-30;
      constexpr double largest = 1e30;
      bounds[c] = static_cast<float>(std::clamp(bound, smallest, largest));
    }
    Choice choice;
    choice.action = Choice::Action::encode;
    choice.spec.error_bound = *std::ranges::min_element(bounds);
    switch (settings_.codec) {
      case AcgcSettings::Codec::quant:
      case AcgcSettings::Codec::quant_z:
        choice.spec.name = "fixed_point";
        choice.spec.zero_value = settings_.codec == AcgcSettings::Codec::quant_z;
        if (bounds.size() > 1) {
          choice.channel_bounds = std::make_shared<const std::vector<float>>(std::move(bounds));
        }
        break;
      case AcgcSettings::Codec::cusz:
        choice.spec.name = "error_bounded_ratio";
        break;
      case AcgcSettings::Codec::jpeg:
      case AcgcSettings::Codec::jpeg_z:
        choice.spec.name = "dct";
        choice.spec.zero_value = settings_.codec == AcgcSettings::Codec::jpeg_z;
        break;
    }
    return choice;
  }

  AcgcSettings settings_;
  bool looking_ = false;
  std::vector<Known> known_;
};

}  // namespace

std::string acgc_words(const Settings& settings) {
  const AcgcSettings& a = settings.acgc;
  const std::map<AcgcSettings::Codec, std::string> codecs = {
      {AcgcSettings::Codec::quant, "fixed point by channel"},
      {AcgcSettings::Codec::quant_z, "fixed point by channel, zeros apart"},
      {AcgcSettings::Codec::cusz, "prediction and Huffman"},
      {AcgcSettings::Codec::jpeg, "DCT"},
      {AcgcSettings::Codec::jpeg_z, "DCT, zeros apart"}};
  return "AC-GC: inputs of convolutions, linear layers, batch and layer norms are held by " +
         codecs.at(a.codec) + " within error bounds that let gradient variance grow by at most " +
         number_in_words(100 * a.e2) + " %" +
         (a.expected ? " in expectation" : ", guaranteed by Cauchy and Schwarz") +
         ". The first step is not compressed; gradients are looked at every " +
         std::to_string(a.every_steps) + " steps, and the mean of the last " +
         std::to_string(a.window) +
         " looks is used. What AC-GC has no bound for stays as it is, unless a rule says "
         "otherwise.";
}

std::unique_ptr<Director> make_acgc_director(const Settings& settings) {
  return std::make_unique<Acgc>(settings);
}

}  // namespace cinch::policy
