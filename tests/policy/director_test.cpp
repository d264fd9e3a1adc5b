// SPDX-License-Identifier: Apache-2.0
#include "policy/director.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

using Action = Choice::Action;

Settings with(std::string policy) {
  Settings settings;
  settings.policy = std::move(policy);
  settings.division.name = "division";
  return settings;
}

/// A layer with its menu and what each item takes, as the stash makes it.
std::uint32_t add(Director& director, LayerKind kind, std::size_t raw = 1 << 20,
                  std::int64_t planes = 8, bool on_device = false) {
  Layer layer;
  layer.on_device = on_device;
  layer.kind = kind;
  layer.raw_bytes = raw;
  layer.elements = static_cast<std::int64_t>(raw / 4);
  layer.planes = planes;
  layer.channels = 4;
  layer.menu = director.menu(layer);
  for (const Choice& choice : layer.menu) {
    const bool encodes = choice.action == Action::encode;
    layer.menu_bytes.push_back(encodes ? raw * static_cast<std::size_t>(choice.spec.bits) / 32
                                       : raw);
  }
  return director.add(std::move(layer));
}

Look look(LayerKind kind, double output_gradient, double weight_gradient = 1) {
  Look look;
  look.kind = kind;
  look.output_gradient = output_gradient;
  look.weight_gradient = weight_gradient;
  look.samples = 8;
  return look;
}

TEST(Actnn, LevelsOneAndTwoAreFixed) {
  Settings settings = with("actnn");
  settings.actnn.level = 1;
  const auto one = make_director(settings);
  EXPECT_EQ(one->choice(add(*one, LayerKind::convolution)).spec.bits, 4);
  EXPECT_EQ(one->choice(add(*one, LayerKind::linear)).action, Action::keep);
  settings.actnn.level = 2;
  const auto two = make_director(settings);
  EXPECT_EQ(two->choice(add(*two, LayerKind::linear)).spec.bits, 4);
  EXPECT_EQ(two->choice(add(*two, LayerKind::matmul)).spec.bits, 8);
  two->begin_step(0, nullptr);
  EXPECT_FALSE(two->wants().anything());
}

TEST(Actnn, GivesBitsWhereGradientsAreLarge) {
  const auto director = make_director(with("actnn"));
  director->begin_step(0, nullptr);
  const auto important = add(*director, LayerKind::convolution);
  const auto unimportant = add(*director, LayerKind::convolution);
  const auto norm = add(*director, LayerKind::batch_norm);
  const auto attention = add(*director, LayerKind::attention);
  EXPECT_EQ(director->choice(important).spec.bits, 8) << "nothing is known yet";
  ASSERT_TRUE(director->wants().gradients);
  for (const auto& [layer, gradient] : {std::pair{important, 1000.0}, {unimportant, 1.0}}) {
    Look seen = look(LayerKind::convolution, gradient);
    seen.plane_ranges.assign(8, 1.0F);
    director->observe(layer, seen);
  }
  Look seen = look(LayerKind::batch_norm, 1);
  seen.producer = important;
  director->observe(norm, seen);
  director->begin_step(1, nullptr);
  EXPECT_FALSE(director->wants().anything());
  const double first = director->choice(important).mixed_bits;
  const double second = director->choice(unimportant).mixed_bits;
  EXPECT_GT(first, second);
  EXPECT_NEAR(first + second, 4, 1e-9) << "an average of 2";
  EXPECT_EQ(director->choice(norm).mixed_bits, first) << "the convolution's before it";
  EXPECT_EQ(director->choice(attention).spec.bits, 4) << "never 2";
  EXPECT_EQ(director->choice(attention).mixed_bits, 0);
}

TEST(Acgc, IsUncompressedUntilItKnowsThenBounded) {
  const auto director = make_director(with("acgc"));
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::convolution);
  EXPECT_EQ(director->choice(layer).action, Action::keep);
  Look seen = look(LayerKind::convolution, 4, 10);
  seen.kernel = 9;
  director->observe(layer, seen);
  director->begin_step(1, nullptr);
  const Choice& choice = director->choice(layer);
  ASSERT_EQ(choice.action, Action::encode);
  EXPECT_EQ(choice.spec.name, "fixed_point");
  const double expected = std::sqrt(0.5 * 10 / (2.0 * 9 * (1 << 18) * 4));
  EXPECT_NEAR(double{choice.spec.error_bound} / expected, 1, 1e-6);
}

TEST(Acgc, LooksOnceInAnInterval) {
  const auto director = make_director(with("acgc"));
  int looks = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    director->begin_step(step, nullptr);
    looks += director->wants().anything() ? 1 : 0;
  }
  EXPECT_EQ(looks, 10);
}

TEST(Acgc, AveragesTheLastTenLooks) {
  Settings settings = with("acgc");
  settings.acgc.every_steps = 1;
  const auto director = make_director(settings);
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::linear);
  double sum = 0;
  for (int i = 0; i < 15; ++i) {
    director->observe(layer, look(LayerKind::linear, 1, 1 + i));
    director->begin_step(static_cast<std::uint64_t>(i) + 1, nullptr);
    if (i >= 5) sum += 0.5 * (1 + i) / (2.0 * (1 << 18));
  }
  EXPECT_NEAR(double{director->choice(layer).spec.error_bound} / std::sqrt(sum / 10), 1, 1e-6);
}

TEST(Acgc, BatchNormIsBoundedByChannel) {
  const auto director = make_director(with("acgc"));
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::batch_norm);
  Look seen = look(LayerKind::batch_norm, 1);
  for (int c = 0; c < 4; ++c) {
    // Ever more of the gradient is along x, where an error of x's scale weighs most.
    seen.channels.push_back({1, 1, std::ldexp(256.0, c), std::ldexp(2.0, 2 * c), 0});
  }
  director->observe(layer, seen);
  director->begin_step(1, nullptr);
  const auto& bounds = director->choice(layer).channel_bounds;
  ASSERT_TRUE(bounds);
  ASSERT_EQ(bounds->size(), 4U);
  EXPECT_GT(bounds->front(), bounds->back())
      << "where gradients are large, errors have to be small";
}

TEST(Acgc, WhatHasNoBoundStaysAsItIs) {
  const auto director = make_director(with("acgc"));
  director->begin_step(0, nullptr);
  const auto layer = add(*director, LayerKind::attention);
  director->observe(layer, look(LayerKind::linear, 1));
  director->begin_step(1, nullptr);
  EXPECT_EQ(director->choice(layer).action, Action::keep);
}

TEST(Comet, WarmsUpRefreshesAndHalves) {
  Settings settings = with("comet");
  settings.comet.every_steps = 100;
  settings.comet.momentum_steps = 10;
  const auto director = make_director(settings);
  std::uint32_t layer = no_layer;
  std::vector<std::uint64_t> looks;
  int followed = 0;
  double gradient = 1;
  for (std::uint64_t step = 0; step < 400; ++step) {
    director->begin_step(step, nullptr);
    if (step == 0) layer = add(*director, LayerKind::convolution);
    if (step < 100) {
      ASSERT_EQ(director->choice(layer).action, Action::keep) << step;
    }
    followed += director->wants().momentum ? 1 : 0;
    if (!director->wants().gradients) continue;
    looks.push_back(step);
    Look seen = look(LayerKind::convolution, gradient);
    seen.momentum = 1;
    director->observe(layer, seen);
    gradient *= looks.size() == 1 ? 16 : 1;  // the second bound is a quarter of the first
  }
  EXPECT_EQ(looks, (std::vector<std::uint64_t>{99, 199, 249, 349}));
  EXPECT_EQ(followed, 40);
  EXPECT_EQ(director->choice(layer).spec.name, "error_bounded_ratio");
  EXPECT_NEAR(director->choice(layer).spec.error_bound, 0.01 * std::sqrt(3.0) / 4, 1e-6);
}

class BudgetTest : public testing::Test {
 protected:
  void start(double ratio) {
    Settings settings = with("budget");
    settings.budget.ratio = ratio;
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
  for (const double ratio : {2.0, 5.0, 8.0, 10.0}) {
    layers_.clear();
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

TEST_F(BudgetTest, NeverGivesAttentionTwoBits) {
  start(10.6);
  for (int i = 0; i < 5; ++i) step();
  for (const auto number : layers_) {
    const Choice& choice = director_->choice(number);
    const bool attends = director_->layer(number).kind == LayerKind::attention;
    EXPECT_GE(choice.spec.bits, attends ? 4 : 2);
  }
}

TEST_F(BudgetTest, SaysWhatCouldBeMet) {
  start(30);
  step();
  step();
  const std::string message = director_->take_message();
  EXPECT_NE(message.find("0.27 MiB can't be met"), std::string::npos) << message;
  EXPECT_NE(message.find("0.75 MiB is the least"), std::string::npos) << message;
  EXPECT_EQ(director_->take_message(), "") << "once";
  EXPECT_EQ(stored(), (layers_.size() / 2 << 20) * 6 / 32);
}

/// Layers of a CUDA device that may move to the host's memory, at what a second is worth.
class OffloadTest : public testing::Test {
 protected:
  void plan(double ratio, double variance_per_second, std::size_t raw = 1 << 20) {
    Settings settings = with("budget");
    settings.budget.ratio = ratio;
    settings.budget.offload = true;
    settings.budget.variance_per_second = variance_per_second;
    director_ = make_director(settings);
    director_->begin_step(0, nullptr);
    layers_.clear();
    for (int i = 0; i < 4; ++i) {
      layers_.push_back(add(*director_, LayerKind::linear, raw, 8, true));
      layers_.push_back(add(*director_, LayerKind::attention, raw, 8, true));
    }
    Footprint footprint;
    footprint.layers = layers_;
    footprint.raw_bytes = footprint.planned_bytes = footprint.stored_bytes = layers_.size() * raw;
    director_->begin_step(1, &footprint);
  }

  std::size_t offloaded() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        layers_, [this](std::uint32_t layer) { return director_->choice(layer).offload; }));
  }

  double stored() const {
    double sum = 0;
    for (const std::uint32_t layer : layers_) {
      const Choice& choice = director_->choice(layer);
      if (choice.offload) continue;
      const auto raw = static_cast<double>(director_->layer(layer).raw_bytes);
      sum += choice.action == Action::encode ? raw * choice.spec.bits / 32 : raw;
    }
    return sum;
  }

  std::unique_ptr<Director> director_;
  std::vector<std::uint32_t> layers_;
};

TEST_F(OffloadTest, MeetsWhatBitsAloneCannot) {
  plan(30, 100);
  EXPECT_LE(stored(), static_cast<double>(layers_.size() << 20) / 30);
  EXPECT_GT(offloaded(), 0U);
  EXPECT_LT(offloaded(), layers_.size()) << "time has its price";
  EXPECT_EQ(director_->take_message(), "");
}

TEST_F(OffloadTest, IsChosenByWhatASecondIsWorth) {
  plan(6, 0.01);
  const std::size_t many = offloaded();
  EXPECT_GT(many, layers_.size() / 2) << "copies cost next to nothing";
  plan(6, 1e4);
  EXPECT_LT(offloaded(), many) << "bits are quicker";
  EXPECT_LE(stored(), static_cast<double>(layers_.size() << 20) / 6);
}

TEST_F(OffloadTest, LeavesSmallEntriesWhereTheyAre) {
  plan(30, 0.01, 32768);
  EXPECT_EQ(offloaded(), 0U) << "below offload.min_bytes";
}

TEST_F(OffloadTest, IsForCudaTensorsAndWhoAsksForIt) {
  Settings settings = with("budget");
  settings.budget.ratio = 30;
  const auto offloads = [](const Director& director, std::uint32_t layer) {
    return std::ranges::any_of(director.layer(layer).menu, &Choice::offload);
  };
  const auto silent = make_director(settings);
  EXPECT_FALSE(offloads(*silent, add(*silent, LayerKind::linear, 1 << 20, 8, true)));
  settings.budget.offload = true;
  const auto asked = make_director(settings);
  EXPECT_TRUE(offloads(*asked, add(*asked, LayerKind::linear, 1 << 20, 8, true)));
  EXPECT_FALSE(offloads(*asked, add(*asked, LayerKind::linear)));
}

TEST_F(BudgetTest, SpendsBitsWhereTrialsSayTheyMatter) {
  start(6);
  step();
  for (std::size_t i = 0; i < layers_.size(); i += 2) measure(layers_[i], i == 0 ? 4.0 : 1e-4);
  for (int i = 0; i < 15; ++i) step();
  EXPECT_GT(director_->choice(layers_[0]).spec.bits, director_->choice(layers_[2]).spec.bits);
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
  EXPECT_EQ(stored(), (4U << 20) * 8 / 32);
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

/// Trials whose squared errors are so much at 2 bits, 9 times that at 1, and fall with the number
/// of levels as formulas say.
void try_layer(Director& director, std::uint32_t layer, double error_at_2_bits) {
  const auto& menu = director.layer(layer).menu;
  Look seen;
  seen.kind = director.layer(layer).kind;
  seen.trials.resize(menu.size());
  for (const auto i : director.trials(layer)) {
    const double levels = std::ldexp(1.0, menu[i].spec.bits) - 1;
    const double error = error_at_2_bits * 9 / (levels * levels);
    seen.trials[i] = {error, error, error};
  }
  director.observe(layer, seen);
}

class OneBitTest : public testing::Test {
 protected:
  /// A large layer and a small one, and a budget that 2 bits just meet.
  void start(std::uint32_t guard_every_steps) {
    Settings settings = with("budget");
    settings.budget.ratio = 16;
    settings.guard.every_steps = guard_every_steps;
    director_ = make_director(settings);
    director_->begin_step(0, nullptr);
    large_ = add(*director_, LayerKind::convolution, 4 << 20);
    small_ = add(*director_, LayerKind::convolution, 1 << 20);
  }

  void train(double error_of_large, double error_of_small) {
    for (std::uint64_t step = 1; step < 30; ++step) {
      Footprint footprint;
      footprint.layers = {large_, small_};
      footprint.raw_bytes = 5 << 20;
      footprint.planned_bytes = footprint.stored_bytes = footprint.raw_bytes / 16;
      director_->begin_step(step, &footprint);
      if (error_of_large > 0) try_layer(*director_, large_, error_of_large);
      if (error_of_small > 0) try_layer(*director_, small_, error_of_small);
    }
  }

  std::unique_ptr<Director> director_;
  std::uint32_t large_ = 0;
  std::uint32_t small_ = 0;
};

TEST_F(OneBitTest, IsChosenWhereTrialsFindItHarmless) {
  start(100);
  train(0.001, 0.3);
  EXPECT_EQ(director_->choice(large_).spec.bits, 1);
  EXPECT_GT(director_->choice(small_).spec.bits, 2);
}

TEST_F(OneBitTest, IsNotChosenWhereTheGuardWouldDoubleIt) {
  start(100);
  train(0.5, 100);  // 1 bit: gradients off by 2.1
  EXPECT_EQ(director_->choice(large_).spec.bits, 2);
}

TEST_F(OneBitTest, IsChosenWithoutAGuard) {
  start(0);
  train(0.5, 100);
  EXPECT_EQ(director_->choice(large_).spec.bits, 1);
}

TEST_F(OneBitTest, IsNotChosenUntried) {
  start(0);
  train(0, 100);
  EXPECT_EQ(director_->choice(large_).spec.bits, 2);
}

/// Bits of a smooth function's input in a branch of a residual net, from whose gradient so much
/// arrives at the sum with the skip connection's.
double bits_in_branch(double share_of_sum) {
  Settings settings = with("auto");
  settings.budget.noise = 0.1;
  const auto director = make_director(settings);
  director->begin_step(0, nullptr);
  Footprint footprint;
  for (const auto kind : {LayerKind::linear, LayerKind::linear, LayerKind::convolution,
                          LayerKind::elementwise, LayerKind::linear}) {
    footprint.layers.push_back(add(*director, kind));
  }
  footprint.raw_bytes = 5 << 20;
  footprint.planned_bytes = footprint.stored_bytes = 1 << 20;
  for (std::uint64_t step = 1; step < 30; ++step) {
    director->begin_step(step, &footprint);
    for (const auto layer : footprint.layers) {
      Look sum;
      sum.share_of_sum = layer == 2 ? share_of_sum : 1;
      director->observe(layer, sum);
      try_layer(*director, layer, 0.5);
    }
  }
  return director->choice(footprint.layers[3]).spec.bits;
}

TEST(Auto, ErrorsInABranchCountByItsShareOfTheGradient) {
  EXPECT_GT(bits_in_branch(1), bits_in_branch(0.05));
}

TEST(Auto, StartsSafeAndGoesToTheNoiseThatIsAllowed) {
  Settings settings = with("auto");
  settings.budget.noise = 0.1;
  const auto director = make_director(settings);
  director->begin_step(0, nullptr);
  std::vector<std::uint32_t> layers;
  for (int i = 0; i < 8; ++i) layers.push_back(add(*director, LayerKind::linear));
  for (const auto layer : layers) EXPECT_EQ(director->choice(layer).spec.bits, 4);
  Footprint footprint;
  footprint.layers = layers;
  footprint.raw_bytes = 8 << 20;
  footprint.planned_bytes = footprint.stored_bytes = 2 << 20;
  for (std::uint64_t step = 1; step < 30; ++step) {
    director->begin_step(step, &footprint);
    for (const auto layer : layers) {
      Look seen;
      seen.kind = LayerKind::linear;
      seen.gradient_noise = 1;
      seen.trials.resize(director->layer(layer).menu.size());
      for (const auto i : director->trials(layer)) {
        const double error = layer < 4 ? 0.05 : 2.0;
        seen.trials[i] = {error, error};
        if (director->layer(layer).menu[i].spec.bits == 1) seen.trials[i] = {3, 3};
      }
      director->observe(layer, seen);
    }
  }
  double noise = 0;
  for (const auto layer : layers) {
    const double levels = std::ldexp(1.0, director->choice(layer).spec.bits) - 1;
    noise += (layer < 4 ? 0.05 : 2.0) * 9 / (levels * levels) / 8;
    EXPECT_LT(director->choice(layer).spec.bits, layer < 4 ? 4 : 9);
  }
  EXPECT_LE(noise, 0.1);
}

// What hooks/torch/stash/dry_run.cpp relies on: one step of looks and one footprint are enough.
class RehearsalTest : public testing::TestWithParam<const char*> {};

TEST_P(RehearsalTest, TwoStepsAreEnoughToChoose) {
  Settings settings = with(GetParam());
  if (settings.policy == "budget") settings.budget.ratio = 10;
  if (settings.policy == "auto") settings.budget.noise = 0.1;
  const auto director = make_director(settings);
  const Rehearsal steps = director->rehearsal();
  EXPECT_LT(steps.learning, steps.use);
  director->begin_step(steps.learning, nullptr);
  EXPECT_TRUE(director->wants().anything());
  Footprint footprint;
  for (int i = 0; i < 4; ++i) footprint.layers.push_back(add(*director, LayerKind::convolution));
  std::vector<Choice> before;
  for (const auto layer : footprint.layers) {
    before.push_back(director->choice(layer));
    Look seen = look(LayerKind::convolution, 4, 10);
    seen.momentum = 0.1;
    seen.plane_ranges.assign(8, 1.0F);
    for (const auto index : director->trials(layer)) {
      seen.trials.resize(director->layer(layer).menu.size());
      seen.trials[index] = {1e-3, 0};
    }
    director->observe(layer, seen);
  }
  footprint.raw_bytes = std::size_t{4} << 20;
  footprint.planned_bytes = footprint.stored_bytes = footprint.raw_bytes / 4;
  director->begin_step(steps.use, &footprint);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Choice& choice = director->choice(footprint.layers[i]);
    EXPECT_EQ(choice.action, Action::encode);
    EXPECT_FALSE(choice == before[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RehearsalTest,
                         testing::Values("actnn", "acgc", "comet", "budget", "auto"));

TEST(Keeping, CountsLayersAndKeepsThem) {
  const auto director = make_keeping_director();
  EXPECT_EQ(add(*director, LayerKind::convolution), 0u);
  EXPECT_EQ(add(*director, LayerKind::attention), 1u);
  director->begin_step(0, nullptr);
  EXPECT_EQ(director->choice(0).action, Action::keep);
  EXPECT_FALSE(director->wants().anything());
}

}  // namespace
}  // namespace cinch::policy
