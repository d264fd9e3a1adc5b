// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/entry_lists.h"

#include <array>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "hooks/torch/stash/entry/plan.h"
#include "hooks/torch/stash/recipes/recipe.h"

namespace cinch::hooks {
namespace {

TEST(EntryLists, PlannedAreTheBytesOfEntriesWithUses) {
  static auto& lists = *new EntryLists;  // forks take its lock for ever
  auto plan = std::make_shared<Plan>();
  plan->stored_bytes = 40;
  Entry entry;
  entry.raw_bytes = 100;
  Use first;
  Use second;
  lists.add_use(entry, first);
  EXPECT_EQ(lists.planned.raw(), 0U) << "not planned yet";
  entry.own_plan = plan;
  lists.add_planned(entry);
  lists.add_use(entry, second);
  EXPECT_EQ(lists.planned.raw(), 100U);
  lists.remove_use(entry, first);
  EXPECT_EQ(lists.planned.raw(), 100U);
  lists.remove_use(entry, second);
  EXPECT_EQ(lists.planned.raw(), 0U) << "although a thread may hold it still";
  EXPECT_EQ(lists.planned.all(), 0U);
  lists.add_use(entry, first);
  EXPECT_EQ(lists.planned.all(), 40U);
  entry.place = Entry::Place::window;
  lists.remove_use(entry, first);
  EXPECT_EQ(lists.planned.all(), 40U) << "the window's bytes are a part of these";
  lists.remove_planned(entry);
  lists.remove_planned(entry);
  EXPECT_EQ(lists.planned.all(), 0U);
}

TEST(EntryLists, WhatOnlyUnreadRecipesReadIsNotPlanned) {
  static auto& lists = *new EntryLists;
  auto plan = std::make_shared<Plan>();
  Entry source;
  source.raw_bytes = 100;
  source.own_plan = plan;
  Entry middle;
  middle.raw_bytes = 20;
  Entry last;
  last.raw_bytes = 3;
  std::array<Use, 3> uses;
  lists.add_use(source, uses[0]);
  for (const auto& [from, to] : {std::pair(&source, &middle), std::pair(&middle, &last)}) {
    to->own_plan = plan;
    to->recipe = std::make_unique<Recipe>();
    to->recipe->source_count = 1;
    Recipe::Source& read = to->recipe->all_sources[0];
    read.entry = from;
    read.use.is_recipes = true;
    read.use.recipe = to->recipe.get();
    lists.add_use(*from, read.use);
  }
  lists.add_use(middle, uses[1]);
  lists.add_use(last, uses[2]);
  EXPECT_EQ(lists.planned.raw(), 123U);
  lists.remove_use(source, uses[0]);
  lists.remove_use(middle, uses[1]);
  EXPECT_EQ(lists.planned.raw(), 123U) << "both are read for the last one";
  lists.remove_use(last, uses[2]);
  EXPECT_EQ(lists.planned.raw(), 0U) << "although a thread may hold the last one still";
  lists.add_use(last, uses[2]);
  EXPECT_EQ(lists.planned.raw(), 123U);
  lists.add_use(source, uses[0]);
  lists.remove_use(last, uses[2]);
  EXPECT_EQ(lists.planned.raw(), 100U) << "a node reads it";
}

TEST(EntryLists, WhatNobodySavedHasNoRawBytes) {
  static auto& lists = *new EntryLists;
  auto plan = std::make_shared<Plan>();
  plan->stored_bytes = 40;
  Entry entry;
  entry.raw_bytes = 100;
  entry.unsaved = true;
  entry.own_plan = plan;
  lists.add_planned(entry);
  EXPECT_EQ(lists.planned.raw(), 0U);
  EXPECT_EQ(lists.planned.all(), 40U);
  lists.remove_planned(entry);
  EXPECT_EQ(lists.planned.raw(), 0U);
  lists.held.unsaved = lists.held.settling = 100;
  EXPECT_EQ(lists.held.raw(), 0U);
  EXPECT_EQ(lists.held.stored(), 100U);
}

}  // namespace
}  // namespace cinch::hooks
