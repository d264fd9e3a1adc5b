// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/sides.h"

#include <array>

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

Sides sides_of(codecs::ChannelOrder order) {
  return {{1, 2, 3}, {0, 0, 0}, {4, 5, 6}, {1, 1, 1}, order};
}

/// Samples of 3 channels and 4 x 5 elements as planes.
codecs::Description samples(std::array<std::int64_t, 3> stride) {
  codecs::Description what;
  what.layout.inner = 2;
  what.layout.inner_stride = 60;
  what.layout.extent = {3, 4, 5};
  what.layout.stride = stride;
  return what;
}

TEST(Sides, RunsAreChannels) {
  const Sides contiguous = sides_of({2, 3, 20});
  const auto with = contiguous.added_to(samples({20, 5, 1}));
  ASSERT_TRUE(with);
  EXPECT_EQ(with->sides.run, 20);
  EXPECT_EQ(with->sides.factor, contiguous.scale.data());
  EXPECT_EQ(with->sides.center, contiguous.mean.data());
  const Sides channels_last = sides_of({40, 3, 1});
  const auto last = channels_last.added_to(samples({1, 15, 3}));
  ASSERT_TRUE(last);
  EXPECT_EQ(last->sides.run, 20);
}

TEST(Sides, NotWherePlanesAreCutOtherwise) {
  const Sides contiguous = sides_of({2, 3, 20});
  const Sides channels_last = sides_of({40, 3, 1});
  EXPECT_FALSE(contiguous.added_to(samples({1, 15, 3})));
  EXPECT_FALSE(channels_last.added_to(samples({20, 5, 1})));
  codecs::Description rows;  // across channels
  rows.layout = codecs::PlaneLayout::rows(120, 40);
  EXPECT_FALSE(contiguous.added_to(rows));
  rows.layout = codecs::PlaneLayout::rows(60, 60);  // of another size
  EXPECT_FALSE(contiguous.added_to(rows));
  rows.layout = codecs::PlaneLayout::rows(120, 60);
  EXPECT_TRUE(contiguous.added_to(rows));
}

}  // namespace
}  // namespace cinch::hooks
