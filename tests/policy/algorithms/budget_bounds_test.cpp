// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "policy/algorithms/layer_noise.h"
#include "policy/state_file.h"
#include "tests/policy/director_builder.h"

namespace cinch::policy {
namespace {

constexpr std::size_t raw = 1 << 20;

/// Six layers in training, of which error bounds make what the test says.
class BudgetBoundsTest : public testing::Test {
 protected:
  void start(double ratio) {
    settings_ = with("budget");
    settings_.budget.ratio = ratio;
    director_ = make_director(settings_);
    director_->begin_step(0, nullptr);
    step_ = 0;
    layers_.clear();
    for (int i = 0; i < 6; ++i) layers_.push_back(add(*director_, LayerKind::linear));
  }

  /// What a layer takes now, exactly.
  double held(std::uint32_t layer) {
    const Choice& choice = director_->choice(layer);
    if (choice.action != Choice::Action::encode) return raw;
    if (!is_bounded(choice)) return raw * choice.spec.bits / 32.0;
    // An entropy coder's bits, which move with the data.
    return bits_of_bounds_ * raw / 32 * (choice.spec.bits == 3 ? 1 : 1.6) * movement_(random_);
  }

  /// A step: what was held is told back, and layers that the director asks for are tried.
  void step() {
    Footprint footprint;
    footprint.layers = layers_;
    double stored = 0;
    for (const auto layer : layers_) {
      const double bytes = held(layer);
      stored += bytes;
      if (is_bounded(director_->choice(layer))) {
        director_->note_size(layer, static_cast<std::size_t>(bytes));
      }
    }
    footprint.raw_bytes = layers_.size() * raw;
    footprint.planned_bytes = footprint.stored_bytes = stored_ = static_cast<std::size_t>(stored);
    director_->begin_step(++step_, &footprint);
    if (!director_->wants().trials) return;
    for (const auto layer : layers_) {
      if (director_->tries(layer, 100 * raw)) try_all(layer);
    }
  }

  void try_all(std::uint32_t layer) {
    const auto& menu = director_->layer(layer).menu;
    Look seen;
    seen.kind = LayerKind::linear;
    seen.trials.resize(menu.size());
    for (const auto i : director_->trials(layer)) {
      const double levels = std::ldexp(1.0, menu[i].spec.bits) - 1;
      const double share = 9 / (levels * levels);
      const double error = error_at_2_bits * share * (is_bounded(menu[i]) ? bias_of_bounds_ : 1);
      seen.trials[i] = {error, 0, 0, values_ * share, raw / 32};
      if (is_bounded(menu[i])) {
        seen.trials[i].bytes = static_cast<std::size_t>(bits_of_bounds_ * raw / 32 *
                                                        (menu[i].spec.bits == 3 ? 1 : 1.6));
      }
    }
    director_->observe(layer, seen);
  }

  int bounded() const {
    return static_cast<int>(std::ranges::count_if(
        layers_, [this](auto layer) { return is_bounded(director_->choice(layer)); }));
  }

  int changes() const {
    int sum = 0;
    for (const auto layer : layers_) sum += static_cast<int>(director_->version(layer));
    return sum;
  }

  static constexpr double error_at_2_bits = 0.3;
  double bits_of_bounds_ = 1.9;  // of a normal distribution's values, at 3 bits' error
  double bias_of_bounds_ = 1;    // their errors, as a multiple of groups'
  double values_ = 0.5;
  std::mt19937 random_{1};
  std::lognormal_distribution<double> movement_{0, 0};
  Settings settings_;
  std::unique_ptr<Director> director_;
  std::vector<std::uint32_t> layers_;
  std::size_t stored_ = 0;
  std::uint64_t step_ = 0;
};

TEST_F(BudgetBoundsTest, AreChosenWhereTheyTakeLessForTheSameNoise) {
  start(10);
  for (int i = 0; i < 30; ++i) step();
  EXPECT_GT(bounded(), 0);
  EXPECT_LE(stored_, layers_.size() * raw / 10);
  for (const auto layer : layers_) {
    const Choice& choice = director_->choice(layer);
    EXPECT_EQ(director_->expected_bytes(layer) != 0, is_bounded(choice));
    if (!is_bounded(choice)) continue;
    // 2 bits' values are off by 0.5 in the mean square.
    const double levels = std::ldexp(1.0, choice.spec.bits) - 1;
    EXPECT_NEAR(choice.spec.error_bound, std::sqrt(3 * 0.5 * 9) / levels, 1e-6);
  }
}

TEST_F(BudgetBoundsTest, AreNotChosenWhereTrialsFindMoreNoiseThanOfFewerBits) {
  bias_of_bounds_ = 9;
  start(10);
  for (int i = 0; i < 30; ++i) step();
  EXPECT_EQ(bounded(), 0);
}

TEST_F(BudgetBoundsTest, AreNotChosenWhereDataTakeMore) {
  bits_of_bounds_ = 9;
  start(10);
  for (int i = 0; i < 30; ++i) step();
  EXPECT_EQ(bounded(), 0);
}

TEST_F(BudgetBoundsTest, DoNotOscillateWhenSizesMove) {
  movement_ = std::lognormal_distribution<double>(0, 0.05);
  for (const unsigned seed : {1, 2, 3, 4, 5}) {
    random_.seed(seed);
    start(10);
    for (int i = 0; i < 60; ++i) step();
    ASSERT_GT(bounded(), 0);
    const int before = changes();
    int over = 0;
    for (int i = 0; i < 400; ++i) {
      step();
      over += stored_ > layers_.size() * raw / 10 ? 1 : 0;
    }
    EXPECT_LE(changes() - before, static_cast<int>(layers_.size())) << seed;
    EXPECT_LE(over, 4) << "a hundredth of the steps, " << seed;
    EXPECT_GT(bounded(), 0);
  }
}

TEST_F(BudgetBoundsTest, AreGivenUpWhenDataStopCompressing) {
  start(10);
  for (int i = 0; i < 30; ++i) step();
  ASSERT_GT(bounded(), 0);
  bits_of_bounds_ = 6;
  for (int i = 0; i < 15; ++i) step();
  EXPECT_EQ(bounded(), 0);
  EXPECT_LE(stored_, layers_.size() * raw / 10);
}

TEST_F(BudgetBoundsTest, FollowValuesThatGrow) {
  start(10);
  for (int i = 0; i < 30; ++i) step();
  ASSERT_GT(bounded(), 0);
  const auto layer = *std::ranges::find_if(
      layers_, [this](auto number) { return is_bounded(director_->choice(number)); });
  const float before = director_->choice(layer).spec.error_bound;
  values_ *= 100;
  for (int i = 0; i < 700; ++i) step();
  EXPECT_NEAR(director_->choice(layer).spec.error_bound / before, 10, 1e-3);
}

TEST_F(BudgetBoundsTest, ALaterRunBeginsWithThem) {
  start(10);
  for (int i = 0; i < 30; ++i) step();
  ASSERT_GT(bounded(), 0);
  auto state = parse_state(state_text(director_->learned()));
  ASSERT_TRUE(std::holds_alternative<LearnedState>(state)) << std::get<std::string>(state);
  const auto later = make_director(settings_);
  ASSERT_EQ(later->resume(std::get<LearnedState>(std::move(state))), "");
  for (const auto layer : layers_) {
    add(*later, LayerKind::linear);
    EXPECT_EQ(later->choice(layer), director_->choice(layer));
    EXPECT_EQ(later->expected_bytes(layer), director_->expected_bytes(layer));
  }
}

}  // namespace
}  // namespace cinch::policy
