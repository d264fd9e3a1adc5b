// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/entry_queue.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {
namespace {

class EntryQueueTest : public testing::Test {
 protected:
  EntryQueueTest() {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = entries[i];
      const c10::Device device(c10::kCUDA, i == 3 ? 1 : 0);
      entry.device = std::make_unique<OnDevice>(c10::Stream(c10::Stream::DEFAULT, device));
      entry.state = Entry::State::kept;
      entry.raw_bytes = 100;
    }
  }
  std::array<Entry, 4> entries;
  EntryQueue queue;
};

TEST_F(EntryQueueTest, TheOldestFirstWhateverLeaves) {
  for (Entry& entry : entries) queue.push_back(entry);
  EXPECT_EQ(queue.bytes(), 400U);
  EXPECT_EQ(entries[2].device->queue, &queue);
  queue.remove(entries[1]);
  EXPECT_EQ(queue.oldest(-1), &entries[0]);
  queue.remove(entries[0]);
  EXPECT_EQ(queue.oldest(-1), &entries[2]);
  EXPECT_EQ(queue.oldest(1), &entries[3]);
  EXPECT_EQ(queue.oldest(2), nullptr) << "none of that device";
  queue.push_back(entries[0]);
  queue.remove(entries[2]);
  EXPECT_EQ(queue.oldest(-1), &entries[3]);
  queue.remove(entries[3]);
  queue.remove(entries[0]);
  EXPECT_EQ(entries[0].device->queue, nullptr);
  EXPECT_EQ(queue.oldest(-1), nullptr);
  EXPECT_EQ(queue.bytes(), 0U);
}

TEST_F(EntryQueueTest, OneThatComesBackIsTheOldestAgain) {
  for (Entry& entry : entries) queue.push_back(entry);
  queue.remove(entries[0]);
  queue.remove(entries[1]);
  entries[1].raw_bytes = 10;
  queue.push_front(entries[1]);
  queue.push_front(entries[0]);
  EXPECT_EQ(queue.bytes(), 310U);
  std::vector<Entry*> order;
  queue.for_each([&order](Entry& entry) { order.push_back(&entry); });
  EXPECT_EQ(order, (std::vector<Entry*>{&entries[0], &entries[1], &entries[2], &entries[3]}));
  queue.remove(entries[2]);
  queue.remove(entries[0]);
  EXPECT_EQ(queue.oldest(-1), &entries[1]);
  queue.remove(entries[1]);
  queue.remove(entries[3]);
  EXPECT_EQ(queue.bytes(), 0U);
}

TEST_F(EntryQueueTest, SaysWithoutALockWhetherAnyIsIn) {
  EXPECT_TRUE(queue.is_empty());
  queue.push_back(entries[0]);
  queue.push_front(entries[1]);
  queue.remove(entries[0]);
  EXPECT_FALSE(queue.is_empty());
  queue.remove(entries[1]);
  EXPECT_TRUE(queue.is_empty());
}

TEST_F(EntryQueueTest, OneThatStaysDoesNotMakeItGrow) {
  queue.push_back(entries[0]);
  for (int step = 0; step < 1000; ++step) {
    queue.push_back(entries[1]);
    queue.push_back(entries[2]);
    queue.remove(entries[1]);
    queue.remove(entries[2]);
  }
  EXPECT_EQ(queue.places(), 1U);
  queue.remove(entries[0]);
}

}  // namespace
}  // namespace cinch::hooks
