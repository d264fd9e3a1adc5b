// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/exact_part.h"

#include <cstddef>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "policy/adapting/part.h"

namespace cinch::hooks {
namespace {

constexpr std::size_t piece = policy::piece_bytes;

// Every piece has bytes of its own number; what is behind the last piece is 255.
std::vector<std::byte> numbered(std::size_t pieces, std::size_t more) {
  std::vector<std::byte> whole(pieces * piece + more, std::byte{255});
  for (std::size_t i = 0; i < pieces * piece; ++i) whole[i] = static_cast<std::byte>(i / piece);
  return whole;
}

TEST(ExactPart, TakesOnePieceOfEachStretch) {
  const auto whole = numbered(100, 8);
  for (std::uint32_t id = 0; id < 50; ++id) {
    const ExactPart part(whole.size(), 10 * piece, id);
    std::vector<std::byte> taken(10 * piece);
    part.take(whole.data(), taken);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(std::to_integer<std::size_t>(taken[i * piece]) / 10, i);
      EXPECT_EQ(taken[i * piece], taken[i * piece + piece - 1]) << "a whole piece";
    }
    EXPECT_NEAR(part.share(), 0.1, 1e-3);
  }
}

TEST(ExactPart, TakesOtherPiecesOfOtherEntries) {
  const auto whole = numbered(100, 0);
  std::set<std::byte> first;
  for (std::uint32_t id = 0; id < 200; ++id) {
    std::vector<std::byte> taken(10 * piece);
    ExactPart(whole.size(), taken.size(), id).take(whole.data(), taken);
    first.insert(taken[0]);
  }
  EXPECT_EQ(first.size(), 10U);
}

TEST(ExactPart, PutsThePiecesWhereTheyWere) {
  const auto whole = numbered(100, 8);
  const ExactPart part(whole.size(), 30 * piece, 7);
  std::vector<std::byte> taken(30 * piece);
  part.take(whole.data(), taken);
  std::vector<std::byte> other(whole.size(), std::byte{200});
  part.put(taken, other.data());
  std::size_t put = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (other[i] == std::byte{200}) continue;
    EXPECT_EQ(other[i], whole[i]);
    ++put;
  }
  EXPECT_EQ(put, taken.size());
}

}  // namespace
}  // namespace cinch::hooks
