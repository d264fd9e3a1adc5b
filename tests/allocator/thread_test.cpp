// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/core.h"
#include "tests/allocator/model.h"
#include "tools/fake_driver.h"

namespace cinch::allocator::test {
namespace {

constexpr std::size_t unit = 64 * kibibyte;

// Each thread writes its number over its blocks and finds it there when it frees them; blocks are
// also handed from thread to thread. Each thread has a stream of its own. With a lag, of so many
// operations, memory moves that the device still works with.
void expect_nobody_writes_into_anothers_block(const Config& config, std::uint64_t lag = 0) {
  constexpr int threads = 4;
  constexpr int rounds = 3000;
  FakeDriver::Options options = tight_device(unit);
  options.backed = true;
  options.synchronous = lag == 0;
  options.lag = lag;
  FakeDriver fake(options);
  Core core(fake.table(), config);
  std::atomic<std::uint64_t> wrong{0};
  struct Mail {
    std::mutex mutex;
    std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  } mail;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      std::vector<std::pair<unsigned char*, std::size_t>> mine;
      const auto drop = [&](std::pair<unsigned char*, std::size_t> block) {
        if (block.first[0] != block.first[block.second - 1]) ++wrong;
        if (!core.free(reinterpret_cast<Address>(block.first))) ++wrong;
      };
      for (int i = 0; i < rounds; ++i) {
        if (mine.size() < 20 && random() % 2 == 0) {
          const std::size_t bytes = random_size(random, unit);
          const Stream stream = lag == 0 ? 0 : static_cast<Stream>(t);
          fake.advance(1);
          fake.work(stream);
          auto* data = reinterpret_cast<unsigned char*>(core.allocate(bytes, stream));
          if (data == nullptr) continue;
          data[0] = data[bytes - 1] = static_cast<unsigned char>(t + 1);
          mine.emplace_back(data, bytes);
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          const std::lock_guard lock(mail.mutex);
          mail.blocks.push_back(mine.back());
          mine.pop_back();
        }
        std::pair<unsigned char*, std::size_t> foreign{nullptr, 0};
        {
          const std::lock_guard lock(mail.mutex);
          if (!mail.blocks.empty()) {
            foreign = mail.blocks.back();
            mail.blocks.pop_back();
          }
        }
        if (foreign.first != nullptr) drop(foreign);
        if (core.free(0)) ++wrong;
        if (i % 1000 == 0) core.release_idle();
      }
      for (const auto& block : mine) drop(block);
    });
  }
  for (auto& worker : workers) worker.join();
  for (const auto& block : mail.blocks) core.free(reinterpret_cast<Address>(block.first));
  EXPECT_EQ(wrong, 0u);
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
  EXPECT_EQ(core.stats().moved_early_bytes > 0, lag != 0);
  core.release_idle();
  EXPECT_EQ(fake.created_bytes(), 0u);
}

TEST(Threads, NobodyWritesIntoAnothersBlock) {
  expect_nobody_writes_into_anothers_block(tight_config(unit));
}

TEST(Threads, NobodyWritesIntoAnothersBlockWhileTheDeviceLagsBehind) {
  expect_nobody_writes_into_anothers_block(tight_config(unit), 2000);
}

TEST(Threads, NobodyWritesIntoAnothersBlockWithFronts) {
  expect_nobody_writes_into_anothers_block(fronted_config(unit));
}

// Blocks wander from thread to thread with nothing but an exchange between them, while so many come
// that the table grows again and again, and another thread gives memory back all the time.
TEST(Threads, BlocksWanderWhileTheTableGrows) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t most = 4000;  // the table begins with room for 512
  FakeDriver::Options options;
  options.backed = true;
  options.synchronous = true;
  FakeDriver fake(options);
  Config config;
  config.quick_limit = 2 * kibibyte;
  config.front_always = true;
  Core core(fake.table(), config);
  std::vector<std::atomic<Address>> places(most);
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<bool> stop{false};
  // A block's first word is its address for as long as it is used.
  const auto drop = [&](Address address) {
    if (core.free(0)) ++wrong;
    if (address == 0) return;
    Address& word = *reinterpret_cast<Address*>(address);  // NOLINT(performance-no-int-to-ptr)
    if (std::exchange(word, 0) != address || !core.free(address)) ++wrong;
  };
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (std::size_t i = 0; i < 40'000; ++i) {
        const std::size_t open_to = 200 + i / 10;  // more and more at a time
        const Address address = core.allocate(512 * (1 + random() % 8));
        if (address == 0) {
          ++wrong;
          continue;
        }
        *reinterpret_cast<Address*>(address) = address;  // NOLINT(performance-no-int-to-ptr)
        if (core.size_of(address) == 0) ++wrong;
        drop(places[random() % std::min(open_to, most)].exchange(address));
        if (random() % 4 == 0) drop(places[random() % most].exchange(0));
      }
    });
  }
  std::thread trimmer([&] {
    while (!stop) {
      core.release_idle();
      core.end_round();
      std::this_thread::yield();
    }
  });
  for (std::thread& worker : workers) worker.join();
  stop = true;
  trimmer.join();
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
  EXPECT_GT(core.stats().fronted, 0u);
  for (auto& place : places) drop(place.exchange(0));
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(core.stats().allocated, 0u);
  core.release_idle();
  EXPECT_EQ(fake.created_bytes(), 0u);
}

// Streams, events and figures from many threads at once.
void ask_at_any_time(const Config& config) {
  FakeDriver::Options options = tight_device(unit);
  options.instant = true;
  FakeDriver fake(options);
  Core core(fake.table(), config);
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      core.stats();
      core.snapshot();
      core.breakdown();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> workers;
  for (Stream t = 0; t < 3; ++t) {
    workers.emplace_back([&, t] {
      for (std::size_t i = 0; i < 1500; ++i) {
        const Address a = core.allocate((1 + i % 9) * unit, t);
        const Address b = core.allocate(1000 + i, t);
        if (a != 0) core.record_stream(a, t + 1);
        if (b != 0) core.record_stream(b, t + 1);
        if (b != 0) core.free(b);
        if (a != 0) core.free(a);
      }
    });
  }
  for (auto& worker : workers) worker.join();
  stop = true;
  watcher.join();
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
  EXPECT_EQ(core.stats().allocated, 0u);
  EXPECT_EQ(fake.misuses(), 0u);
}

TEST(Threads, EventsAndFiguresMayBeAskedForAtAnyTime) {
  ask_at_any_time(tight_config(unit));
}

TEST(Threads, EventsAndFiguresMayBeAskedForAtAnyTimeWithFronts) {
  ask_at_any_time(fronted_config(unit));
}

}  // namespace
}  // namespace cinch::allocator::test
