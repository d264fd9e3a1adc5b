// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/shared_entries.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

class SharedEntriesTest : public testing::Test {
 protected:
  SharedEntriesTest() {
    entry_.raw = programs_.storage();
    entry_.identity = StorageIdentity(entry_.raw);
    entry_.raw_bytes = programs_.nbytes();
    entry_.place = Entry::Place::window;
    shared_.add(entry_);
  }

  /// As after encoding.
  void settle() {
    entry_.place = Entry::Place::settled;
    entry_.raw = {};
  }

  std::uint64_t all() const { return shared_.bytes_of_program().all; }
  std::uint64_t raw() const { return shared_.bytes_of_program().raw; }

  at::Tensor programs_ = at::empty({4, 16});
  Entry entry_;
  SharedEntries shared_;
};

TEST_F(SharedEntriesTest, CountsWhatTheProgramOwnsStill) {
  EXPECT_EQ(all(), 256u);
  EXPECT_EQ(raw(), 256u) << "it waits in the window";
  settle();
  EXPECT_EQ(all(), 256u);
  EXPECT_EQ(raw(), 0u);
  programs_.reset();
  EXPECT_EQ(all(), 0u);
}

TEST_F(SharedEntriesTest, WhatWaitsIsOursOnceTheProgramLetGo) {
  programs_.reset();
  EXPECT_EQ(all(), 0u);
  EXPECT_EQ(raw(), 0u);
}

TEST_F(SharedEntriesTest, KnowsTheProgramsStorage) {
  settle();
  EXPECT_TRUE(shared_.was_taken_as(entry_, programs_.storage()));
  EXPECT_FALSE(shared_.was_taken_as(entry_, at::empty({4, 16}).storage()));
  EXPECT_FALSE(shared_.was_taken_as(Entry(), programs_.storage()));
  programs_.resize_({400, 16});
  EXPECT_FALSE(shared_.was_taken_as(entry_, programs_.storage())) << "it has other memory now";
}

TEST_F(SharedEntriesTest, ForgetsWhatIsRemoved) {
  settle();
  shared_.remove(entry_);
  EXPECT_EQ(all(), 0u);
  EXPECT_FALSE(shared_.was_taken_as(entry_, programs_.storage()));
}

}  // namespace
}  // namespace cinch::hooks
