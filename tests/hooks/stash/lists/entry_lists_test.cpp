// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/entry_lists.h"

#include <memory>

#include <gtest/gtest.h>

#include "hooks/torch/stash/entry/plan.h"

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
