// SPDX-License-Identifier: Apache-2.0
// ActNN (Chen et al., ICML 2021, sections 4.1 to 4.3), levels L1 to L3 of its Table 2. What L4 and
// L5 add is done by offload and by the allocator.
#include <algorithm>
#include <numeric>

#include "policy/adapting/mixed_precision.h"
#include "policy/algorithms/lines.h"

namespace cinch::policy {
namespace {

/// Whether L3 allocates bits to layers of this kind.
bool is_allocated(LayerKind kind) noexcept {
  return kind == LayerKind::convolution || kind == LayerKind::linear;
}

class Actnn final : public Director {
 public:
  explicit Actnn(const Settings& settings) : Director(settings.policy), settings_(settings.actnn) {}

  bool goes_by_sizes() const noexcept override { return false; }

  void begin_step(std::uint64_t step, const Footprint*) override {
    if (settings_.level < 3) return;
    if (looking_) allocate();
    // The first step looks too: the first allocation needs its gradients.
    looking_ = step % settings_.every_steps == 0;
  }

  Wants wants() const override {
    Wants wants;
    wants.gradients = wants.ranges = looking_;
    return wants;
  }

  void observe(std::uint32_t number, Look look) override {
    Known& known = known_[number];
    if (look.kind == LayerKind::batch_norm) known.producer = look.producer;
    if (!is_allocated(look.kind)) return;
    // Var[gW] = G/6 sum |gY_n|^2 |R_n|^2 / q^2 (Eq. 9), times K / (I A) for convolutions, with
    // |gY_n|^2 averaged over the samples. Several readers of one activation add up.
    const double scale = look.kernel / (look.locations * look.groups * look.samples);
    known.gradient += look.output_gradient * scale;
    if (!look.plane_ranges.empty()) known.ranges = std::move(look.plane_ranges);
  }

 private:
  struct Known {
    double gradient = 0;
    std::vector<float> ranges;  // R_n^2
    std::uint32_t producer = no_layer;
  };

  Choice first_choice(std::uint32_t number) override {
    known_.resize(number + 1);
    const LayerKind kind = states_[number].layer.kind;
    if (settings_.level == 1 && kind != LayerKind::convolution) return {};
    if (settings_.level < 3) {
      return by_bits(std::max(settings_.fixed_bits, least_bits(kind)));
    }
    if (least_bits(kind) > 1) return by_bits(least_bits(kind));
    // Used until gradients were seen.
    constexpr int safe_bits = 8;
    return by_bits(safe_bits);
  }

  Choice by_bits(int bits) const {
    Choice choice;
    choice.action = Choice::Action::encode;
    choice.spec.name = "group_quant";
    choice.spec.bits = bits;
    choice.spec.group = settings_.group;
    return choice;
  }

  Choice mixed(double bits) const {
    Choice choice = by_bits(std::clamp(static_cast<int>(bits), 1, most_mixed_bits));
    choice.mixed_bits = bits;
    return choice;
  }

  /// Stage 2: allocates bits to all samples of these layers; a layer's average becomes its choice.
  void allocate() {
    std::vector<PrecisionItem> items;
    std::vector<std::uint32_t> owners;
    double elements = 0;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      const Known& known = known_[i];
      if (!is_allocated(states_[i].layer.kind) || known.ranges.empty()) continue;
      const double size =
          static_cast<double>(states_[i].layer.elements) / static_cast<double>(known.ranges.size());
      for (const float range : known.ranges) {
        items.push_back({known.gradient * double{range}, size});
        owners.push_back(i);
        elements += size;
      }
    }
    if (!items.empty()) {
      const auto bits = allocate_bits(items, settings_.bits * elements);
      for (std::size_t k = 0; k < bits.size();) {
        const std::uint32_t owner = owners[k];
        double sum = 0;
        const std::size_t first = k;
        for (; k < bits.size() && owners[k] == owner; ++k) sum += bits[k];
        choose(owner, mixed(sum / static_cast<double>(k - first)));
      }
    }
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      const LayerKind kind = states_[i].layer.kind;
      known_[i].gradient = 0;
      if (kind != LayerKind::batch_norm && kind != LayerKind::layer_norm) continue;
      // A batch norm has the bits of the convolution before it, as in the authors' own code.
      const std::uint32_t producer = known_[i].producer;
      const bool has = producer < states_.size() && states_[producer].choice.mixed_bits > 0;
      // But no fewer than the average: an error here reaches all layers before it.
      const double bits = has ? states_[producer].choice.mixed_bits : settings_.bits;
      choose(i, mixed(std::max(bits, settings_.bits)));
    }
  }

  ActnnSettings settings_;
  bool looking_ = false;
  std::vector<Known> known_;
};

}  // namespace

std::string actnn_words(const Settings& settings) {
  const ActnnSettings& a = settings.actnn;
  switch (a.level) {
    case 0:
      return "ActNN's level L0: nothing is compressed.";
    case 1:
      return "ActNN's level L1: inputs of convolutions are held in groups of " +
             std::to_string(a.group) + " elements at " + std::to_string(a.fixed_bits) +
             " bits; all other activations stay as they are.";
    case 2:
      return "ActNN's level L2: all activations are held in groups of " + std::to_string(a.group) +
             " elements at " + std::to_string(a.fixed_bits) + " bits.";
    default:
      return "ActNN's level L" + std::to_string(a.level) +
             ": inputs of convolutions and linear layers share an average of " +
             number_in_words(a.bits) +
             " bits an element, more where gradients and ranges are large, by layer and by sample; "
             "a batch norm gets the bits of the convolution before it. The first step uses 8 bits; "
             "bits are allocated anew every " +
             std::to_string(a.every_steps) +
             " steps. Attention never gets fewer than 8, smooth activation functions never fewer "
             "than 4." +
             (a.level < 4 ? ""
              : a.level == 4
                  ? " From GPUs what is held moves to the host's memory."
                  : " From GPUs what is held moves to the host's memory, and Cinch's allocator "
                    "stitches what fragmentation would lose.");
  }
}

bool is_level_0(const Settings& settings) {
  return settings.actnn.level == 0;
}

std::unique_ptr<Director> make_actnn_director(const Settings& settings) {
  return std::make_unique<Actnn>(settings);
}

}  // namespace cinch::policy
