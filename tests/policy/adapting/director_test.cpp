// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policy/deciding/describe_layer.h"
#include "tests/policy/director_builder.h"
#include "tests/policy/entry_builder.h"

namespace cinch::policy {
namespace {

using Action = Choice::Action;

// What hooks/torch/stash/adapting/dry_run.cpp relies on: one step of looks and one footprint are
// enough.
class RehearsalTest : public testing::TestWithParam<const char*> {};

TEST_P(RehearsalTest, TwoStepsAreEnoughToChoose) {
  Settings settings = with(GetParam());
  if (settings.policy == "budget") settings.budget.ratio = 10;
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

// Has no memory for the second layer when it is added first.
class ForgetfulDirector final : public Director {
 public:
  ForgetfulDirector() : Director("forgetful") {}
  void begin_step(std::uint64_t, const Footprint*) override {}
  Wants wants() const override { return {}; }
  void observe(std::uint32_t, Look) override {}

 private:
  Choice first_choice(std::uint32_t number) override {
    if (number == 1 && !std::exchange(failed_, true)) throw std::bad_alloc();
    return {};
  }
  bool failed_ = false;
};

TEST(Adding, ChangesNothingWithoutMemory) {
  ForgetfulDirector director;
  EXPECT_EQ(add(director, LayerKind::convolution), 0u);
  EXPECT_THROW(add(director, LayerKind::convolution), std::bad_alloc);
  EXPECT_EQ(director.layers(), 1u);
  EXPECT_EQ(add(director, LayerKind::convolution), 1u);
  const LearnedState learned = director.learned();
  EXPECT_EQ(learned.layers.size(), 2u);
  for (const auto& [name, layer] : learned.layers) {
    EXPECT_TRUE(name.ends_with(" #1") || name.ends_with(" #2")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RehearsalTest,
                         testing::Values("actnn", "acgc", "comet", "budget"));

TEST(Keeping, CountsLayersAndKeepsThem) {
  const auto director = make_keeping_director();
  EXPECT_EQ(add(*director, LayerKind::convolution), 0u);
  EXPECT_EQ(add(*director, LayerKind::attention), 1u);
  director->begin_step(0, nullptr);
  EXPECT_EQ(director->choice(0).action, Action::keep);
  EXPECT_FALSE(director->wants().anything());
}

// A program whose shapes never repeat has new layers for ever.
TEST(Director, TellsABoundedNumberOfLayersApart) {
  const auto director = make_keeping_director();
  LearnedState before;
  before.policy = "keep";
  for (int i = 0; i < 20'000; ++i) before.layers["old " + std::to_string(i)] = {};
  EXPECT_EQ(director->resume(std::move(before)), "");
  EntryBuilder builder;
  const Policy policy(with("actnn"));
  builder.use("aten::convolution", "input", {8, 4, 32, 32});
  for (std::size_t i = 0; i < Director::most_layers; ++i) {
    ASSERT_FALSE(director->is_full());
    if (i == 0) {
      EXPECT_TRUE(describe_layer(policy, *director, builder.build()).has_value());
    }
    add(*director, LayerKind::convolution, 1024 + 4 * i);
  }
  EXPECT_TRUE(director->is_full());
  EXPECT_NE(director->take_message(), "");
  EXPECT_EQ(director->take_message(), "") << "once";
  EXPECT_FALSE(describe_layer(policy, *director, builder.build()).has_value())
      << "no layer: what the rules alone make of it";
  EXPECT_EQ(director->learned().layers.size(), Director::most_layers)
      << "and the state file of many runs is no larger";
}

}  // namespace
}  // namespace cinch::policy
