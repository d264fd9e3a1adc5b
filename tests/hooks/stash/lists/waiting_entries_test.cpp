// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/waiting_entries.h"

#include <array>

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooks/torch/stash/lists/planned_bytes.h"

namespace cinch::hooks {
namespace {

class WaitingEntriesTest : public testing::Test {
 protected:
  WaitingEntriesTest() {
    for (Entry& entry : entries) {
      entry.raw = at::zeros({25}).storage();
      entry.identity = StorageIdentity(entry.raw);
      entry.raw_bytes = 100;
      waiting.add(entry);
    }
  }

  void to_window(Entry& entry) {
    waiting.make_place();
    waiting.remove_owned(entry);
    waiting.enter_window(entry);
  }

  std::array<Entry, 3> entries;
  HeldBytes bytes;
  WaitingEntries waiting{bytes};
};

TEST_F(WaitingEntriesTest, FindsTheEntryOfAStorageThatIsWhatItWas) {
  EXPECT_EQ(waiting.find(entries[1].raw), &entries[1]);
  EXPECT_EQ(waiting.find(at::zeros({25}).storage()), nullptr);
  entries[1].raw.set_nbytes(50);
  EXPECT_EQ(waiting.find(entries[1].raw), nullptr) << "resized since";
  waiting.remove_owned(entries[0]);
  EXPECT_EQ(waiting.find(entries[0].raw), nullptr) << "not owned any more";
}

TEST_F(WaitingEntriesTest, ATurnComesToEachOfTheOwned) {
  waiting.skip_owned();
  EXPECT_EQ(&waiting.next_owned(), &entries[1]);
  waiting.remove_owned(entries[1]);
  EXPECT_EQ(&waiting.next_owned(), &entries[2]) << "took its place";
  waiting.skip_owned();
  EXPECT_EQ(&waiting.next_owned(), &entries[0]) << "from the beginning again";
  EXPECT_THAT(waiting.owned(), testing::UnorderedElementsAre(&entries[0], &entries[2]));
}

TEST_F(WaitingEntriesTest, TheWindowIsLeftInAnyOrder) {
  for (Entry& entry : entries) to_window(entry);
  EXPECT_EQ(bytes.owned, 0U);
  EXPECT_EQ(bytes.window, 300U);
  waiting.leave_window(entries[1]);
  EXPECT_EQ(&waiting.oldest(), &entries[0]);
  waiting.leave_window(entries[0]);
  EXPECT_EQ(&waiting.oldest(), &entries[2]);
  waiting.make_place();
  waiting.give_up_place();
  waiting.leave_window(entries[2]);
  EXPECT_EQ(bytes.window, 0U);
  EXPECT_TRUE(waiting.window().empty());
}

TEST(PlannedBytes, CountsWhatLeavesTheDeviceOnlyOutOfTheWindow) {
  Plan plan;
  plan.stored_bytes = 40;
  plan.on_device = true;
  plan.least_offloaded = 40;
  PlannedBytes planned;
  planned.add(plan, 100);
  EXPECT_EQ(planned.out_of_window(), 40U);
  plan.offload = policy::Decision::Offload::always;
  planned.add(plan, 100);
  EXPECT_EQ(planned.all(), 80U);
  EXPECT_EQ(planned.raw(), 200U);
  planned.note_peak(7);
  EXPECT_EQ(planned.out_of_window(), 40U);
  planned.enter_window(plan);
  EXPECT_EQ(planned.out_of_window(), 40U);
  planned.leave_window(plan);
  planned.remove(plan, 100);
  EXPECT_EQ(planned.all(), 40U);
  planned.note_peak(0);
  EXPECT_EQ(planned.raw_at_peak(), 207U);
  plan.least_offloaded = 41;
  EXPECT_EQ(plan.offloaded_bytes(), 0U) << "too small to be worth a copy";
}

}  // namespace
}  // namespace cinch::hooks
