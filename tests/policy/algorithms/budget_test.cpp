// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

using Action = Choice::Action;

class BudgetTest : public testing::Test {
 protected:
  void start(double ratio) { start({.ratio = ratio}); }

  void start(const BudgetSettings& budget) {
    layers_.clear();
    step_ = 0;
    Settings settings = with("budget");
    settings.budget = budget;
    director_ = make_director(settings);
    director_->begin_step(0, nullptr);
    for (int i = 0; i < 4; ++i) {
      layers_.push_back(add(*director_, LayerKind::linear));
      layers_.push_back(add(*director_, LayerKind::attention));
    }
  }

  std::size_t stored() const {
    double sum = 0;
    for (const auto number : layers_) {
      const Choice& choice = director_->choice(number);
      const auto raw = static_cast<double>(director_->layer(number).raw_bytes);
      const double share = choice.action == Action::lossless ? 0.85 : 1;  // as is assumed
      sum += choice.action == Action::encode ? raw * choice.spec.bits / 32 : share * raw;
    }
    return static_cast<std::size_t>(sum);
  }

  /// A step with every activation `scale` times as large as at first.
  void step(double scale = 1) {
    Footprint footprint;
    footprint.layers = layers_;
    footprint.planned_bytes = footprint.stored_bytes = stored();
    footprint.raw_bytes =
        static_cast<std::size_t>(static_cast<double>(layers_.size() << 20) * scale);
    director_->begin_step(++step_, &footprint);
  }

  void measure(std::uint32_t layer, double squared_error) {
    Look seen;
    seen.kind = director_->layer(layer).kind;
    seen.trials.resize(director_->layer(layer).menu.size());
    for (const auto i : director_->trials(layer)) seen.trials[i] = {squared_error, squared_error};
    director_->observe(layer, seen);
  }

  std::vector<std::uint32_t> versions() const {
    std::vector<std::uint32_t> versions;
    for (const auto number : layers_) versions.push_back(director_->version(number));
    return versions;
  }

  std::unique_ptr<Director> director_;
  std::vector<std::uint32_t> layers_;
  std::uint64_t step_ = 0;
};

TEST_F(BudgetTest, KeepsToTheBudget) {
  for (const double ratio : {2.0, 5.0, 8.0}) {
    start(ratio);
    step();
    step();
    EXPECT_LE(static_cast<double>(stored()), static_cast<double>(layers_.size() << 20) / ratio)
        << ratio;
    EXPECT_GE(static_cast<double>(stored()),
              0.7 * static_cast<double>(layers_.size() << 20) / ratio)
        << "what may be used is used";
    EXPECT_EQ(director_->take_message(), "");
  }
}

TEST_F(BudgetTest, BytesNearTheFewestAreKeptToAndARatioIsNot) {
  constexpr std::size_t bytes = 840'000;  // for 8 MiB, of which the fewest are 0.75 MiB
  start({.peak_bytes = bytes});
  while (step_ < 40) step();
  EXPECT_LE(stored(), bytes);
  EXPECT_EQ(
      director_->take_message(),
      "budget: 0.80 MiB costs quality: 0.75 MiB is the least that 8.00 MiB of activations can "
      "be held in; 0.90 MiB would cost little");
  start(10.0);
  while (step_ < 40) step();
  EXPECT_GT(stored(), bytes);
  EXPECT_EQ(
      director_->take_message(),
      "budget: 0.80 MiB would cost quality: 0.75 MiB is the least that 8.00 MiB of activations "
      "can be held in; going on with up to 0.90 MiB, since the last bytes cost the most "
      "quality");
}

TEST_F(BudgetTest, ARatioNearTheFewestIsKeptToWhereTrialsFindNoHarm) {
  start(10.0);
  while (step_ < 60) {
    step();
    for (const auto number : layers_) measure(number, 1e-6);
  }
  EXPECT_LE(static_cast<double>(stored()), static_cast<double>(layers_.size() << 20) / 10);
}

TEST_F(BudgetTest, NeverGivesAttentionTwoBits) {
  start({.peak_bytes = 800'000});
  for (int i = 0; i < 5; ++i) step();
  for (const auto number : layers_) {
    const Choice& choice = director_->choice(number);
    const bool attends = director_->layer(number).kind == LayerKind::attention;
    EXPECT_GE(choice.spec.bits, attends ? 4 : 2);
  }
}

TEST_F(BudgetTest, SaysWhatCouldBeMetAndTakesAFifthMore) {
  start(30);
  step();
  step();
  EXPECT_EQ(director_->take_message(), "") << "trials may find a way";
  while (step_ < 40) step();
  const std::string message = director_->take_message();
  EXPECT_NE(message.find("0.27 MiB can't be met"), std::string::npos) << message;
  EXPECT_NE(message.find("0.75 MiB is the least"), std::string::npos) << message;
  EXPECT_NE(message.find("with up to 0.90 MiB"), std::string::npos) << message;
  step();
  EXPECT_EQ(director_->take_message(), "") << "once";
  const double least = static_cast<double>(layers_.size() / 2 << 20) * 6 / 32;
  EXPECT_GT(static_cast<double>(stored()), least);
  EXPECT_LE(static_cast<double>(stored()), 1.2 * least);
}

TEST_F(BudgetTest, WhatCantBeMetLeavesThePlanAlone) {
  start(30);
  while (step_ < 40) step();
  const std::vector<std::uint32_t> before = versions();
  while (step_ < 80) step();
  EXPECT_EQ(versions(), before);
}

TEST_F(BudgetTest, SpendsBitsWhereTrialsSayTheyMatter) {
  start(6);
  step();
  for (std::size_t i = 0; i < layers_.size(); i += 2) measure(layers_[i], i == 0 ? 4.0 : 1e-4);
  for (int i = 0; i < 15; ++i) step();
  EXPECT_GT(director_->choice(layers_[0]).spec.bits, director_->choice(layers_[2]).spec.bits);
}

/// Bits of a smooth function's input in a branch of a residual net, of whose gradient such a share
/// arrives at the sum with the skip connection's.
int bits_in_branch(double share_of_sum) {
  Settings settings = with("budget");
  settings.budget.ratio = 5.6;
  const auto director = make_director(settings);
  director->begin_step(0, nullptr);
  Footprint footprint;
  for (const auto kind : {LayerKind::linear, LayerKind::linear, LayerKind::convolution,
                          LayerKind::elementwise, LayerKind::linear}) {
    footprint.layers.push_back(add(*director, kind));
  }
  footprint.raw_bytes = 5 << 20;
  footprint.planned_bytes = footprint.stored_bytes = footprint.raw_bytes / 6;
  for (std::uint64_t step = 1; step < 30; ++step) {
    director->begin_step(step, &footprint);
    for (const auto layer : footprint.layers) {
      Look sum;
      sum.share_of_sum = layer == 2 ? share_of_sum : 1;
      director->observe(layer, sum);
      try_layer(*director, layer, layer == 3 ? 3 : 0.5);  // a sixth of its errors is left
    }
  }
  return director->choice(footprint.layers[3]).spec.bits;
}

TEST(Budget, ErrorsInABranchCountByItsShareOfTheGradient) {
  EXPECT_GT(bits_in_branch(1), bits_in_branch(0.05));
}

TEST_F(BudgetTest, DoesNotOscillate) {
  start(6);
  for (int i = 0; i < 15; ++i) step();
  const auto before = versions();
  std::mt19937 random(1);
  std::lognormal_distribution<double> noise(0, 0.1);
  for (int i = 0; i < 300; ++i) {
    step(i % 2 == 0 ? 1.02 : 0.99);  // footprints move by little,
    for (const auto layer : layers_) measure(layer, 0.3 * noise(random));  // measurements are noisy
  }
  const auto after = versions();
  int changes = 0;
  for (std::size_t i = 0; i < before.size(); ++i) changes += static_cast<int>(after[i] - before[i]);
  // One new plan when the trials replaced what was assumed, then peace.
  EXPECT_LE(changes, static_cast<int>(layers_.size()));
}

TEST_F(BudgetTest, FollowsAFootprintThatMoves) {
  Settings settings = with("budget");
  settings.budget.peak_bytes = 1 << 20;
  director_ = make_director(settings);
  director_->begin_step(0, nullptr);
  for (int i = 0; i < 4; ++i) layers_.push_back(add(*director_, LayerKind::linear));
  for (int i = 0; i < 12; ++i) step();
  EXPECT_LE(stored(), 1U << 20);
  EXPECT_GE(stored(), (4U << 20) * 7 / 32);
  for (int i = 0; i < 4; ++i) layers_.push_back(add(*director_, LayerKind::linear));
  for (int i = 0; i < 12; ++i) step();
  EXPECT_LE(stored(), 1U << 20);
}

TEST_F(BudgetTest, TriesAllLayersWithinAShareOfMemory) {
  start(6);
  step();
  constexpr std::size_t peak = 32 << 20;
  std::vector<int> tried(layers_.size());
  for (int i = 0; i < 10; ++i) {
    if (!director_->wants().trials) break;
    int at_once = 0;
    for (const auto layer : layers_) {
      if (!director_->tries(layer, peak)) continue;
      ++at_once;
      ++tried[layer];
      measure(layer, 0.1);
    }
    EXPECT_LE(at_once, 2) << "a sixteenth";
    step();
  }
  EXPECT_EQ(tried, std::vector<int>(layers_.size(), 1));
}

TEST_F(BudgetTest, WhatIsKeptForTrialsAndTheGuardIsPartOfTheBudget) {
  for (const std::size_t capacity : {(8U << 20) / 6, (8U << 20) / 10}) {
    start({.peak_bytes = capacity});
    step();
    std::size_t tried = 0;
    for (int i = 0; i < 250; ++i) {
      std::size_t kept = *director_->room_for_guard();
      EXPECT_GE(kept, 16U << 10);
      for (const auto layer : layers_) {
        const std::size_t part = director_->tries(layer, layers_.size() << 20);
        kept += part;
        if (part == 0) continue;
        ++tried;
        measure(layer, 0.1);
      }
      EXPECT_LE(stored() + kept, capacity) << "step " << step_;
      step();
    }
    EXPECT_GT(tried, layers_.size());
  }
}

TEST_F(BudgetTest, GivesUpALayerWhoseTrialsShowNothing) {
  start(6);
  step();
  std::vector<int> tried(layers_.size());
  for (int i = 0; i < 20; ++i) {
    for (const auto layer : layers_) {
      if (director_->tries(layer, 16 << 20) == 0) continue;
      ++tried[layer];
      if (layer != layers_[0]) measure(layer, 0.1);
    }
    step();
  }
  EXPECT_EQ(tried, (std::vector<int>{4, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_FALSE(director_->wants().trials) << "all that can be tried was";
}

TEST_F(BudgetTest, EndsTheFirstTrialsWhereAnUntriedLayerDoesNotReturn) {
  start(6);
  constexpr std::size_t peak = 32 << 20;
  const auto train = [&](std::uint64_t until, bool all) {
    while (step_ < until) {
      step();
      for (std::size_t i = all ? 0 : 1; i < layers_.size(); ++i) {
        if (director_->tries(layers_[i], peak)) measure(layers_[i], 0.1);
      }
    }
  };
  train(19, false);
  EXPECT_TRUE(director_->wants().trials) << "a round";
  train(20, false);
  EXPECT_FALSE(director_->wants().trials);
  train(21, true);
  step();
  EXPECT_TRUE(director_->wants().trials) << "it has returned";
  train(23, true);
  step();
  EXPECT_FALSE(director_->wants().trials) << "and was tried";
}

TEST_F(BudgetTest, TriesAFewAgainInAnInterval) {
  start(6);
  step();
  constexpr std::size_t peak = 8 << 20;
  std::vector<int> tried(layers_.size());
  for (int i = 0; i < 850; ++i) {
    int in_step = 0;
    for (const auto layer : layers_) {
      if (!director_->wants().trials || !director_->tries(layer, peak)) continue;
      ++tried[layer];
      ++in_step;
      measure(layer, 0.1);
    }
    EXPECT_LE(in_step, 1) << "more than a sixteenth";
    step();
  }
  // All at first, and then one of eight, an eighth of the bytes, in each hundred steps.
  EXPECT_EQ(tried, std::vector<int>(layers_.size(), 2));
}

}  // namespace
}  // namespace cinch::policy
