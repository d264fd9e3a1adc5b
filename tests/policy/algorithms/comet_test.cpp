// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

using Action = Choice::Action;

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

/// Two layers of a CUDA device in training, refreshed every hundred steps.
class CometEvacuationTest : public testing::Test {
 protected:
  void start(double evacuate_below) {
    Settings settings = with("comet");
    settings.comet.every_steps = 100;
    settings.comet.momentum_steps = 10;
    settings.comet.evacuate_below = evacuate_below;
    director_ = make_director(settings);
    director_->begin_step(0, nullptr);
    for (const bool on_device : {true, true, false}) {
      layers_.push_back(add(*director_, LayerKind::convolution, raw, 8, on_device));
    }
  }

  /// Up to the beginning of step `end`. What is held in a step takes 1 / ratio of the raw bytes, of
  /// the second layer an eighth.
  void train(std::uint64_t end, double ratio) {
    while (step_ < end) {
      if (director_->wants().gradients) {
        Look seen = look(LayerKind::convolution, 1);
        seen.momentum = 1;
        for (const auto layer : layers_) director_->observe(layer, seen);
      }
      for (const auto layer : layers_) {
        if (director_->choice(layer).action != Action::encode) continue;
        director_->note_size(layer, static_cast<std::size_t>(raw / (layer == 1 ? 8 : ratio)));
      }
      director_->begin_step(++step_, nullptr);
    }
  }

  std::vector<bool> evacuated() const {
    std::vector<bool> evacuated;
    for (const auto layer : layers_) evacuated.push_back(director_->choice(layer).offload);
    return evacuated;
  }

  static constexpr std::size_t raw = 1 << 20;
  std::unique_ptr<Director> director_;
  std::vector<std::uint32_t> layers_;
  std::uint64_t step_ = 0;
};

TEST_F(CometEvacuationTest, WhatCompressesBadlyLeavesTheDevice) {
  start(2);
  train(100, 1.9);
  EXPECT_EQ(evacuated(), std::vector<bool>(3)) << "nothing was held yet";
  train(101, 1.9);
  EXPECT_EQ(evacuated(), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(director_->choice(0).action, Action::encode) << "as it is encoded";
  EXPECT_EQ(director_->choice(0).spec, director_->choice(1).spec);
}

TEST_F(CometEvacuationTest, WhatCompressesStays) {
  start(2);
  train(300, 2.1);
  EXPECT_EQ(evacuated(), std::vector<bool>(3));
}

TEST_F(CometEvacuationTest, ARefreshTriesAgain) {
  start(2);
  train(199, 1.5);
  EXPECT_TRUE(director_->choice(0).offload);
  train(200, 3);
  EXPECT_FALSE(director_->choice(0).offload);
  train(299, 3);
  EXPECT_FALSE(director_->choice(0).offload);
}

TEST_F(CometEvacuationTest, NothingMovesWhereItIsSwitchedOff) {
  start(0);
  train(300, 1);
  EXPECT_EQ(evacuated(), std::vector<bool>(3));
}

}  // namespace
}  // namespace cinch::policy
