// SPDX-License-Identifier: Apache-2.0
//
// Blocks of one kernel on several threads of the host.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/cuda/blocks/running_total.cuh"

namespace cinch::cuda_on_host {
namespace {

class Blocks : public testing::Test {
 protected:
  Blocks() { set_block_threads(4); }
  ~Blocks() override {
    set_block_threads(1);
    set_schedule(0);
  }
};

TEST_F(Blocks, RunAtTheSameTime) {
  unsigned arrived = 0;
  run(4, 32, 0, [&] {
    if (threadIdx.x == 0) {
      atomicAdd(&arrived, 1U);
      // Without the others it would wait for ever.
      while (*static_cast<volatile unsigned*>(&arrived) < gridDim.x) may_yield();
    }
    __syncthreads();
  });
  EXPECT_EQ(arrived, 4U);
}

TEST_F(Blocks, EachRunsOnceWithSharedMemoryOfItsOwn) {
  std::vector<unsigned> turns(100, ~0U);
  unsigned next = 0;
  unsigned mixed = 0;
  run(100, 64, 64 * sizeof(unsigned), [&] {
    auto* const shared = reinterpret_cast<unsigned*>(dynamic_shared());
    shared[threadIdx.x] = blockIdx.x;
    __syncthreads();
    if (shared[threadIdx.x ^ 63U] != blockIdx.x) atomicAdd(&mixed, 1U);
    if (threadIdx.x == 0) turns[blockIdx.x] = atomicAdd(&next, 1U);
  });
  EXPECT_EQ(mixed, 0U);
  EXPECT_FALSE(std::ranges::is_sorted(turns)) << "in a random order";
  std::ranges::sort(turns);
  for (unsigned i = 0; i < turns.size(); ++i) EXPECT_EQ(turns[i], i);
}

TEST_F(Blocks, AtomicsLoseNothing) {
  unsigned sum = 0;
  unsigned long long bits = 0;
  unsigned least = ~0U;
  run(64, 64, 0, [&] {
    for (unsigned i = 0; i < 16; ++i) atomicAdd(&sum, 1U);
    atomicOr(&bits, 1ULL << blockIdx.x);
    atomicMin(&least, threadIdx.x + blockIdx.x);
  });
  EXPECT_EQ(sum, 64U * 64U * 16U);
  EXPECT_EQ(bits, ~0ULL);
  EXPECT_EQ(least, 0U);
}

// The blocks' outputs lie one behind another, without a gap, in the order of their turns.
TEST_F(Blocks, LookBackUnderContentionPlacesEachBehindTheOneBefore) {
  constexpr unsigned blocks = 100;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    set_schedule(seed);
    std::vector<unsigned long long> scratch(codecs::cuda::RunningTotal::bytes(blocks) / 8, ~0ULL);
    auto* const total = reinterpret_cast<codecs::cuda::RunningTotal*>(scratch.data());
    run(1, codecs::cuda::kTotalThreads, 0,
        [&] { codecs::cuda::running_total_begin(total, blocks); });
    std::vector<std::int64_t> begin(blocks), size(blocks);
    run(blocks, 64, 0, [&] {
      const std::int64_t turn = codecs::cuda::take_turn(total);
      const std::int64_t own = blockIdx.x * 7 % 5;
      const bool early = blockIdx.x % 3 == 0;
      if (early && threadIdx.x == 0) codecs::cuda::publish_own(total->turns(), turn, own);
      const std::int64_t before = codecs::cuda::add_to_total(total, turn, own, early);
      if (threadIdx.x != 63) return;
      begin[static_cast<std::size_t>(turn)] = before;
      size[static_cast<std::size_t>(turn)] = own;
    });
    std::int64_t expected = 0;
    for (unsigned turn = 0; turn < blocks; ++turn) {
      ASSERT_EQ(begin[turn], expected) << "seed " << seed << ", turn " << turn;
      expected += size[turn];
    }
  }
}

}  // namespace
}  // namespace cinch::cuda_on_host
