// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/buffer_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

TEST(BufferPool, GivesTheSameBufferAgain) {
  BufferPool pool;
  void* first = nullptr;
  {
    const auto buffer = pool.take(3 * mebibyte);
    first = buffer.get();
    std::memset(first, 1, 3 * mebibyte);
  }
  EXPECT_EQ(pool.take(3 * mebibyte).get(), first);
}

c10::DataPtr give_eight_bytes(std::size_t bytes) {
  static std::uint64_t only;
  return {bytes == sizeof only ? &only : nullptr, c10::Device(c10::DeviceType::CPU)};
}

TEST(BufferPool, AsksElsewhereFirst) {
  BufferPool pool(give_eight_bytes);
  const auto given = pool.take(8);
  EXPECT_EQ(given.get(), give_eight_bytes(8).get());
  const auto own = pool.take(mebibyte);
  EXPECT_NE(own.get(), nullptr);
  EXPECT_EQ(pool.used_bytes(), mebibyte);
}

TEST(BufferPool, LargeBuffersStartOnAHugePage) {
  BufferPool pool;
  for (const std::size_t bytes : {2 * mebibyte, 5 * mebibyte + 1, 33 * mebibyte}) {
    const auto buffer = pool.take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.get()) % (2 * mebibyte), 0u) << bytes;
    std::memset(buffer.get(), 1, bytes);
  }
}

TEST(BufferPool, HoldsLittleMoreThanWasNeededAtOnce) {
  BufferPool pool;
  std::size_t most_held = 0;
  for (std::size_t i = 1; i <= 100; ++i) {
    pool.take(i * 4 * mebibyte);                          // one at a time, every size another
    const std::size_t needed = i * 4 * mebibyte * 9 / 8;  // sizes are rounded
    const std::size_t held = pool.idle_bytes() + pool.used_bytes();
    EXPECT_LE(held, needed + std::max(needed / 8, 8 * mebibyte));
    most_held = std::max(most_held, held);
  }
  EXPECT_GT(most_held, 400 * mebibyte);
}

TEST(BufferPool, SizesThatTakeTurnsKeepTheirBuffers) {
  BufferPool pool;
  const void* small = pool.take(4 * mebibyte).get();
  const void* large = pool.take(16 * mebibyte).get();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pool.take(4 * mebibyte).get(), small);
    EXPECT_EQ(pool.take(16 * mebibyte).get(), large);
    pool.new_period();
  }
}

TEST(BufferPool, ForgetsAPeakAfterTwoPeriods) {
  BufferPool pool;
  pool.take(160 * mebibyte);
  pool.new_period();
  EXPECT_EQ(pool.idle_bytes(), 160 * mebibyte);
  pool.take(1 * mebibyte);
  pool.new_period();
  EXPECT_EQ(pool.idle_bytes(), 1 * mebibyte);
}

TEST(BufferPool, GivesBackWhatIsIdleOnRequest) {
  BufferPool pool;
  const auto used = pool.take(2 * mebibyte);
  pool.take(16 * mebibyte);
  EXPECT_EQ(pool.release_idle(), 16 * mebibyte);
  EXPECT_EQ(pool.release_idle(), 0u);
  EXPECT_EQ(pool.used_bytes(), 2 * mebibyte);
  std::memset(pool.take(16 * mebibyte).get(), 1, 16 * mebibyte);
}

TEST(BufferPool, SmallAndEmptyRequests) {
  BufferPool pool;
  EXPECT_EQ(pool.take(0).get(), nullptr);
  const auto small = pool.take(100);
  std::memset(small.get(), 1, 100);
  EXPECT_EQ(pool.used_bytes(), 0u);  // the C library's, not the pool's
}

TEST(BufferPool, ImpossibleRequestGivesNullAndCountsNothing) {
  BufferPool pool;
  EXPECT_EQ(pool.take(std::size_t{1} << 60).get(), nullptr);
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(BufferPool, ThreadsTakeAndGiveBack) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const auto buffer = pool.take((1 + (i + t) % 5) * 256 * 1024);
        static_cast<char*>(buffer.get())[0] = 1;
        if (i % 50 == 0) pool.new_period();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(ZeroPages, AreZero) {
  const auto data = zero_pages(10 * mebibyte);
  ASSERT_NE(data.get(), nullptr);
  const auto* bytes = static_cast<const unsigned char*>(data.get());
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[10 * mebibyte - 1], 0);
}

}  // namespace
}  // namespace cinch::hooks
