// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/ahead/read_ahead.h"

#include <array>
#include <initializer_list>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooks/torch/stash/on_device/on_device.h"

namespace cinch::hooks {
namespace {

constexpr std::uint64_t plenty = 1 << 30;

class ReadAheadTest : public testing::Test {
 protected:
  // A growth of all entries, settled, which backward then reads from the last to the first.
  void step(bool decodes, bool is_offloaded) {
    grow();
    for (std::size_t i = entries.size(); i-- > 0;) read(entries[i], decodes, is_offloaded);
  }

  void grow() {
    ahead.begin_growth(true, next_id, steps++);
    for (Entry& entry : entries) {
      entry.id = next_id++;
      entry.place = Entry::Place::settled;
      entry.encoded_bytes = 10;
      entry.raw_bytes = 100;
      ahead.make_room();
      ahead.add(entry);
    }
  }

  std::vector<Entry*> read(Entry& entry, bool decodes, bool is_offloaded,
                           std::uint64_t most = plenty) {
    ReadAhead::Choice choice;
    ahead.read(entry, use, most, decodes, is_offloaded, choice);
    std::vector<Entry*> chosen = choice.fetches;
    for (const auto& decode : choice.decodes) chosen.push_back(decode.first);
    return chosen;
  }

  std::array<Entry, 6> entries;
  std::uint32_t next_id = 7;
  std::uint64_t steps = 0;
  Use use;
  ReadAhead ahead;
};

TEST_F(ReadAheadTest, ChoosesWhatWasReadNextInTheLastStep) {
  EXPECT_FALSE(ahead.is_on());
  step(true, false);
  grow();
  EXPECT_THAT(read(entries[5], true, false),
              testing::ElementsAre(&entries[4], &entries[3], &entries[2], &entries[1]));
  EXPECT_EQ(entries[4].holders, 1U);
  EXPECT_TRUE(entries[4].ahead);
  EXPECT_THAT(read(entries[4], true, false), testing::ElementsAre(&entries[0]));
  EXPECT_FALSE(entries[4].ahead) << "it was read";
}

TEST_F(ReadAheadTest, GoesNoFurtherThanItsBytes) {
  step(true, false);
  grow();
  EXPECT_THAT(read(entries[5], true, false, 200), testing::ElementsAre(&entries[4], &entries[3]));
  ahead.forget(entries[3]);
  EXPECT_THAT(read(entries[4], true, false, 100), testing::ElementsAre(&entries[3]));
}

TEST_F(ReadAheadTest, DecodesOneThatIsLargerThanAllUnlessAQuarterOfThatIsDecoded) {
  step(true, false);
  grow();
  entries[3].raw_bytes = 5000;
  EXPECT_THAT(read(entries[5], true, false, 404), testing::ElementsAre(&entries[4], &entries[3]));
  for (Entry& entry : entries) ahead.forget(entry);
  EXPECT_THAT(read(entries[5], true, false, 400), testing::ElementsAre(&entries[4]));
}

TEST_F(ReadAheadTest, LeavesOutWhatIsGoneOrNotSettled) {
  step(true, false);
  grow();
  ahead.remove(entries[4]);
  entries[3].place = Entry::Place::window;
  EXPECT_THAT(read(entries[5], true, false),
              testing::ElementsAre(&entries[2], &entries[1], &entries[0]));
}

TEST_F(ReadAheadTest, ADeviceWithoutRoomIsLeftAlone) {
  for (Entry& entry : entries) {
    entry.device =
        std::make_unique<OnDevice>(c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCUDA, 0)));
    entry.device->offloaded_bytes = 10;
  }
  step(false, true);
  grow();
  EXPECT_THAT(
      read(entries[5], false, true),
      testing::ElementsAre(&entries[4], &entries[3], &entries[2], &entries[1], &entries[0]));
  EXPECT_THAT(ahead.take_all(1), testing::IsEmpty()) << "nothing of that device";
  EXPECT_EQ(ahead.take_all(0).size(), 5U);
  for (Entry& entry : entries) ahead.forget(entry);
  EXPECT_THAT(read(entries[4], false, true), testing::IsEmpty());
  grow();
  EXPECT_FALSE(read(entries[5], false, true).empty()) << "there may be room again";
}

}  // namespace
}  // namespace cinch::hooks
