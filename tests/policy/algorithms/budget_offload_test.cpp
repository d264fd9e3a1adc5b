// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

using Action = Choice::Action;

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

}  // namespace
}  // namespace cinch::policy
