// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/planner.h"

#include <algorithm>
#include <memory>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/entry/statistics.h"
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

}  // namespace
}  // namespace cinch::hooks
