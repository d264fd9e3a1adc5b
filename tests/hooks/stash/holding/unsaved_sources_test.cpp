// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/unsaved_sources.h"

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

TEST(UnsavedSources, AreFoundByTheValueThatTheyAreCopiesOf) {
  UnsavedSources sources;
  Entry entry;
  const int node = 0;
  const UnsavedSources::Key key{&node, 7, 1, 2};
  sources.add(key, entry);
  EXPECT_EQ(sources.find(key), &entry);
  EXPECT_EQ(sources.find({&node, 8, 1, 2}), nullptr) << "another node at the same address";
  EXPECT_EQ(sources.find({&node, 7, 0, 2}), nullptr) << "another output";
  EXPECT_EQ(sources.find({&node, 7, 1, 3}), nullptr) << "changed since";
}

TEST(UnsavedSources, AreForgotten) {
  UnsavedSources sources;
  Entry first;
  Entry second;
  const int node = 0;
  const UnsavedSources::Key key{&node, 7, 0, 0};
  sources.add(key, first);
  sources.add(key, second);
  sources.forget(second);
  EXPECT_EQ(sources.find(key), &first) << "the one that was there before";
  sources.forget(first);
  sources.forget(first);
  EXPECT_EQ(sources.find(key), nullptr);
}

}  // namespace
}  // namespace cinch::hooks
