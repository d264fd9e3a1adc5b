// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/planner.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "hooks/torch/stash/planning/described_entry.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "policy/policy.h"

namespace cinch::hooks {
namespace {

class PlannerTest : public testing::Test {
 protected:
  static policy::Settings settings() {
    auto parsed = policy::parse_settings(
        R"({"version": 1, "policy": "division", "min_bytes": 0, "preset_rules": false, "rules": [{"match": {"op": "*"}, "codec": {"name": "raw"}}]})",
        "test");
    return std::get<policy::Settings>(std::move(parsed));
  }

  /// The class of an entry of `elements` floats that is saved in this growth.
  std::shared_ptr<EntryClass> planned(std::int64_t elements, std::uint64_t growth) {
    const at::Tensor tensor = at::empty({elements});
    Use use;
    use.site = &site_;
    use.type = at::kFloat;
    use.geometry = Geometry(tensor);
    Entry entry;
    entry.raw = tensor.storage();
    entry.raw_bytes = tensor.nbytes();
    entry.append(use);
    planner_.plan(entry, growth);
    return entry.entry_class;
  }

  Site site_{Site::Kind::many};
  Statistics statistics_;
  policy::Policy policy_{settings()};
  Planner planner_{policy_, nullptr, statistics_};
};

TEST_F(PlannerTest, EntriesOfOneDescriptionAreOneClass) {
  EXPECT_EQ(planned(7, 1), planned(7, 2));
  EXPECT_NE(planned(7, 2), planned(8, 2));
}

TEST_F(PlannerTest, KnowsABoundedNumberOfClasses) {
  const auto in_each_step = planned(1, 1);
  std::vector<std::weak_ptr<EntryClass>> once;
  for (std::uint64_t growth = 1; growth <= 30; ++growth) {
    EXPECT_EQ(planned(1, growth), in_each_step) << "what comes back is not forgotten";
    for (int i = 0; i < 400; ++i) {
      once.push_back(planned(2 + static_cast<std::int64_t>(once.size()), growth));
    }
  }
  const auto known = std::ranges::count_if(once, [](const auto& each) { return !each.expired(); });
  EXPECT_LE(static_cast<std::size_t>(known), Planner::most_classes);
}

// A growth of more classes than are known at a time.
TEST_F(PlannerTest, OneGrowthMayHaveMoreClassesThanAreKnown) {
  std::vector<std::weak_ptr<EntryClass>> once;
  for (std::size_t i = 0; i < 2 * Planner::most_classes; ++i) {
    once.push_back(planned(1 + static_cast<std::int64_t>(i), 1));
  }
  const auto known = std::ranges::count_if(once, [](const auto& each) { return !each.expired(); });
  EXPECT_LE(static_cast<std::size_t>(known), Planner::most_classes);
}

// In a dry run recipes of other policies hold sources, too.
TEST_F(PlannerTest, UsesOfRecipesDoNotCountWhereThePolicyDerivesNothing) {
  policy::Settings deriving_nothing = settings();
  deriving_nothing.derive.enabled = false;
  const policy::Policy policy(std::move(deriving_nothing));
  Planner planner(policy, nullptr, statistics_);
  const at::Tensor tensor = at::empty({64});
  Entry entries[2];
  Use uses[4];
  for (Use& use : uses) {
    use.site = &site_;
    use.type = at::kFloat;
    use.geometry = Geometry(tensor);
  }
  uses[0].is_recipes = uses[2].is_recipes = true;
  for (Use& use : std::span(uses).first(3)) entries[0].append(use);
  entries[1].append(uses[3]);
  for (Entry& entry : entries) {
    entry.raw = tensor.storage();
    entry.raw_bytes = tensor.nbytes();
    planner.plan(entry, 1);
  }
  EXPECT_EQ(entries[0].entry_class, entries[1].entry_class);
  for (const Use& use : uses) {
    EXPECT_EQ(use.reads, use.is_recipes ? codecs::Reads::nothing : codecs::Reads::values);
  }
}

/// An operand of fused attention, and another one: both are sources of the output's recipe.
class RecomputedTest : public testing::Test {
 protected:
  RecomputedTest() {
    recipe_.pair = std::make_shared<AttentionPair>();
    recipe_.source_count = 2;
    for (const bool first : {true, false}) {
      Entry& entry = first ? query_ : key_;
      const at::Tensor tensor = at::empty({4, 16});
      entry.raw = tensor.storage();
      entry.raw_bytes = tensor.nbytes();
      Use& use = first ? query_use_ : key_use_;
      Recipe::Source& source = recipe_.all_sources[first ? 0 : 1];
      use.site = source.use.site = first ? &query_site_ : &key_site_;
      use.type = source.use.type = at::kFloat;
      use.geometry = source.use.geometry = Geometry(tensor);
      use.sequence = source.use.sequence = 7;
      source.use.is_recipes = true;
      source.use.recipe = &recipe_;
      source.entry = &entry;
      entry.append(use);
      entry.append(source.use);
    }
  }

  /// Whether the policy is told that the query's attention is computed anew, in all its uses.
  bool is_recomputed() const {
    const DescribedEntry described(query_, true);
    EXPECT_EQ(described.uses.size(), 2u);
    EXPECT_EQ(described.uses[0].is_recomputed, described.uses[1].is_recomputed);
    return described.uses[0].is_recomputed;
  }
  Words class_key() const {
    Words key;
    set_class_key(query_, true, key);
    return key;
  }

  Site query_site_{Site::Kind::many};
  Site key_site_{Site::Kind::many};
  Recipe recipe_;
  Use query_use_;
  Use key_use_;
  Entry query_;
  Entry key_;
};

TEST_F(RecomputedTest, AnOperandIsWhileNothingSpeaksAgainstIt) {
  EXPECT_TRUE(is_recomputed());
  const DescribedEntry stored(query_, /*derives=*/false);
  ASSERT_EQ(stored.uses.size(), 1u);
  EXPECT_FALSE(stored.uses[0].is_recomputed);
  query_use_.sequence = 6;  // of another node
  const DescribedEntry other(query_, true);
  EXPECT_FALSE(other.uses[0].is_recomputed);
}

TEST_F(RecomputedTest, NotIfAPartIsStored) {
  const Words before = class_key();
  (*recipe_.pair)[AttentionPart::output].fate = AttentionPair::Fate::derived;
  EXPECT_TRUE(is_recomputed());
  (*recipe_.pair)[AttentionPart::log_sum_exp].fate = AttentionPair::Fate::stored;
  EXPECT_FALSE(is_recomputed());
  EXPECT_NE(class_key(), before) << "it is planned otherwise";
}

TEST_F(RecomputedTest, NotIfTheLogSumExpHasNoRecipe) {
  recipe_.pair.reset();
  EXPECT_FALSE(is_recomputed());
}

TEST_F(RecomputedTest, WhoeverOwnsAnOperand) {
  const c10::Storage programs = key_.raw;
  EXPECT_TRUE(is_recomputed());
}

}  // namespace
}  // namespace cinch::hooks
