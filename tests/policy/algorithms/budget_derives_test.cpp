// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <gtest/gtest.h>

#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

/// "budget" and a layer norm's input, of which a linear layer's input is computed.
class BudgetDerivesTest : public testing::Test {
 protected:
  BudgetDerivesTest() {
    Settings settings = with("budget");
    settings.budget.ratio = 8;
    director_ = make_director(settings);
    director_->begin_step(0, nullptr);
    source_ = add(*director_, like(LayerKind::layer_norm, /*derivable=*/false));
    computed_ = add(*director_, like(LayerKind::linear, /*derivable=*/true));
    other_ = add(*director_, LayerKind::linear);
  }

  static Layer like(LayerKind kind, bool derivable) {
    Layer layer;
    layer.kind = kind;
    layer.derivable = derivable;
    layer.is_source = !derivable;
    return layer;
  }

  std::size_t stored(std::uint32_t number) const {
    const Choice& choice = director_->choice(number);
    const std::size_t raw = director_->layer(number).raw_bytes;
    if (choice.derived && derives_) return 0;
    return choice.action == Choice::Action::encode
               ? raw * static_cast<std::size_t>(choice.spec.bits) / 32
               : raw;
  }

  void step() {
    Footprint footprint;
    footprint.layers = {source_, computed_, other_};
    if (derives_ && director_->choice(computed_).derived) {
      footprint.derived = {{computed_, 0, {source_}, is_slow_}};
    }
    for (const auto number : footprint.layers) footprint.planned_bytes += stored(number);
    footprint.other_bytes = other_bytes_;
    footprint.planned_bytes += other_bytes_;
    footprint.stored_bytes = footprint.planned_bytes;
    footprint.raw_bytes = footprint.layers.size() << 20;
    director_->begin_step(++step_, &footprint);
  }

  std::unique_ptr<Director> director_;
  std::uint32_t source_ = 0, computed_ = 0, other_ = 0;
  bool derives_ = true;  ///< what is to be derived is
  bool is_slow_ = false;
  std::size_t other_bytes_ = 0;
  std::uint64_t step_ = 0;
};

TEST_F(BudgetDerivesTest, AtFirstWhatCanBeIsDerivedAndSourcesHaveFourBits) {
  EXPECT_TRUE(director_->choice(computed_).derived);
  EXPECT_FALSE(director_->choice(source_).derived);
  EXPECT_EQ(director_->choice(source_).spec.bits, 4);
}

TEST_F(BudgetDerivesTest, TheSourceGetsBitsForWhatIsComputedFromIt) {
  for (int i = 0; i < 3; ++i) step();
  for (const auto number : {source_, other_}) try_layer(*director_, number, 0.1);
  try_layer(*director_, computed_, 10);
  for (int i = 0; i < 15; ++i) step();
  EXPECT_TRUE(director_->choice(computed_).derived);
  EXPECT_GT(director_->choice(source_).spec.bits, director_->choice(other_).spec.bits);
}

TEST_F(BudgetDerivesTest, WhatIsNotDerivedAfterAllIsStoredByItsOwnNeed) {
  step();
  derives_ = false;
  for (int i = 0; i < 15; ++i) step();
  EXPECT_FALSE(director_->choice(computed_).derived);
  EXPECT_EQ(director_->choice(computed_).spec.bits, director_->choice(other_).spec.bits);
}

TEST_F(BudgetDerivesTest, WhatIsSlowToComputeIsStoredWhereThatCostsLittle) {
  is_slow_ = true;
  const auto run_with_noise = [this](double at_2_bits) {
    for (int i = 0; i < 40; ++i) {
      for (const auto number : {source_, computed_, other_}) {
        try_layer(*director_, number, at_2_bits);
      }
      step();
    }
    return director_->choice(computed_).derived;
  };
  step();
  EXPECT_TRUE(run_with_noise(1)) << "bytes are worth more than time";
  EXPECT_FALSE(run_with_noise(1e-3));
  EXPECT_TRUE(run_with_noise(1));
  is_slow_ = false;
  EXPECT_TRUE(run_with_noise(1e-3));
}

TEST_F(BudgetDerivesTest, BytesThatOthersNoLongerTakeAreSpent) {
  other_bytes_ = 200 << 10;  // what is derived from the third step on
  for (int i = 0; i < 3; ++i) step();
  const int before = director_->choice(source_).spec.bits;
  other_bytes_ = 0;
  for (int i = 0; i < 15; ++i) step();
  EXPECT_GT(director_->choice(source_).spec.bits, before);
}

}  // namespace
}  // namespace cinch::policy
