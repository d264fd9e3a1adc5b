// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/device/pinned_pool.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;

std::size_t spare = 0;
int calls_until_failure = 0;
std::vector<void*> pinned_segments;

class PinnedPoolTest : public testing::Test {
 protected:
  PinnedPoolTest() {
    spare = std::size_t{1} << 40;
    calls_until_failure = 1 << 30;
  }
  ~PinnedPoolTest() override {
    for (void* segment : pinned_segments) std::free(segment);
    pinned_segments.clear();
  }

  static PinnedPool::Host host() {
    return {[](std::size_t bytes) noexcept {
              if (calls_until_failure-- <= 0) return static_cast<void*>(nullptr);
              return pinned_segments.emplace_back(std::aligned_alloc(PinnedPool::quantum, bytes));
            },
            []() noexcept { return spare; }};
  }

  static std::shared_ptr<const CopyMoment> moment(std::intptr_t queue, std::uint64_t number) {
    auto made = std::make_shared<CopyMoment>();
    made->queue = queue;
    made->number = number;
    return made;
  }
};

TEST_F(PinnedPoolTest, WhoGetsAPieceNextIsToldItsCopies) {
  PinnedPool pool(host(), 64 * mebi, 1);
  auto first = pool.take(mebi);
  EXPECT_TRUE(first->before().empty());
  std::byte* const data = first->data();
  first->used(moment(1, 10));
  first->used(moment(2, 11));
  first->used(moment(1, 12));
  first.reset();
  const auto second = pool.take(mebi);
  EXPECT_EQ(second->data(), data);
  ASSERT_EQ(second->before().size(), 2U);
  EXPECT_EQ(second->before()[0]->number, 12U) << "of one queue the later copy";
  EXPECT_EQ(second->before()[1]->number, 11U);
}

TEST_F(PinnedPoolTest, AnUnusedPieceKeepsWhatItHadToWaitFor) {
  PinnedPool pool(host(), 64 * mebi, 1);
  auto piece = pool.take(mebi);
  piece->used(moment(1, 10));
  piece.reset();
  pool.take(mebi).reset();  // its copy could not be enqueued
  EXPECT_EQ(pool.take(mebi)->before().size(), 1U);
}

TEST_F(PinnedPoolTest, NeighboursJoinAndBringTheirCopiesAlong) {
  PinnedPool pool(host(), 64 * mebi, 1);
  std::vector<std::unique_ptr<PinnedPool::Piece>> pieces;
  for (std::uint64_t i = 0; i < 64; ++i) {
    pieces.push_back(pool.take(mebi));
    pieces.back()->used(moment(1, i));
  }
  EXPECT_EQ(pool.take(1), nullptr);
  std::shuffle(pieces.begin(), pieces.end(), std::mt19937(1));
  pieces.clear();
  const auto whole = pool.take(64 * mebi);
  ASSERT_NE(whole, nullptr);
  ASSERT_EQ(whole->before().size(), 1U);
  EXPECT_EQ(whole->before()[0]->number, 63U);
  EXPECT_EQ(pool.figures().reserved, 64 * mebi);
  EXPECT_EQ(pool.figures().peak_used, 64 * mebi);
}

TEST_F(PinnedPoolTest, TheCapHolds) {
  PinnedPool pool(host(), 10 * mebi + 1, 1);
  const auto six = pool.take(6 * mebi);
  ASSERT_NE(six, nullptr);
  EXPECT_EQ(pool.take(6 * mebi), nullptr);
  EXPECT_NE(pool.take(4 * mebi), nullptr);
  EXPECT_LE(pool.figures().reserved, 10 * mebi);
}

TEST_F(PinnedPoolTest, SegmentsAreAsSmallAsAskedFor) {
  PinnedPool pool(host(), 64 * mebi, 1, mebi);
  const auto small = pool.take(1);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(pool.figures().reserved, mebi);
  const auto large = pool.take(3 * mebi);
  ASSERT_NE(large, nullptr) << "larger than a segment";
  EXPECT_EQ(pool.figures().reserved, 4 * mebi);
}

TEST_F(PinnedPoolTest, WithoutACapItIsHalfOfWhatIsThereForEachProcess) {
  spare = 4096 * mebi;
  PinnedPool pool(host(), 0, 2);
  ASSERT_NE(pool.take(1), nullptr);
  EXPECT_EQ(pool.figures().most, 1024 * mebi);
}

TEST_F(PinnedPoolTest, TheHostKeepsSome) {
  spare = PinnedPool::least_left + 2 * mebi;
  PinnedPool pool(host(), 1024 * mebi, 1);
  EXPECT_EQ(pool.take(3 * mebi), nullptr);
  EXPECT_NE(pool.take(2 * mebi), nullptr);
}

TEST_F(PinnedPoolTest, ARefusalIsRememberedUntilSomethingIsGivenBack) {
  PinnedPool pool(host(), 1024 * mebi, 1);
  auto piece = pool.take(64 * mebi);
  calls_until_failure = 0;
  EXPECT_EQ(pool.take(mebi), nullptr);
  EXPECT_EQ(pool.take(2 * mebi), nullptr);
  EXPECT_EQ(calls_until_failure, -1) << "asked once";
  piece.reset();
  EXPECT_NE(pool.take(mebi), nullptr);
  EXPECT_EQ(pool.take(65 * mebi), nullptr);
  EXPECT_EQ(calls_until_failure, -2);
}

TEST_F(PinnedPoolTest, RandomUseNeverOverlapsAndLosesNoCopy) {
  PinnedPool pool(host(), 256 * mebi, 1);
  std::mt19937 random(7);
  struct Held {
    std::unique_ptr<PinnedPool::Piece> piece;
    std::size_t bytes;
  };
  std::vector<Held> held;
  std::map<std::byte*, std::uint64_t> last_copy;  // of each quantum
  std::uint64_t now = 0;
  for (int i = 0; i < 20000; ++i) {
    if (held.empty() || random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (2 * mebi);
      auto piece = pool.take(bytes);
      if (piece == nullptr) {
        held.clear();
        continue;
      }
      std::uint64_t waited_for = 0;
      for (const auto& before : piece->before()) waited_for = before->number;
      piece->used(moment(1, ++now));
      for (std::size_t at = 0; at < bytes; at += PinnedPool::quantum) {
        auto& last = last_copy[piece->data() + at];
        ASSERT_LE(last, waited_for);
        last = now;
      }
      held.push_back({std::move(piece), bytes});
    } else {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
    }
  }
  std::vector<std::pair<std::byte*, std::byte*>> ranges;
  for (const Held& h : held) ranges.emplace_back(h.piece->data(), h.piece->data() + h.bytes);
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  held.clear();
  EXPECT_EQ(pool.figures().used, 0U);
}

}  // namespace
}  // namespace cinch::hooks
