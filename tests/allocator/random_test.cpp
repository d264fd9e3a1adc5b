// SPDX-License-Identifier: Apache-2.0
// Random operations over streams, events, threads and injected failures, against a second account
// of everything. CINCH_ALLOCATOR_OPS is how many (10000000 takes minutes), CINCH_ALLOCATOR_SEED
// which.
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "tests/allocator/model.h"

namespace cinch::allocator::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr std::size_t unit = 64 * kibibyte;

void run(const FakeDriver::Options& options, const Config& config, std::uint64_t operations,
         std::uint64_t seed) {
  constexpr std::uint64_t operations_per_device = 50'000;
  constexpr std::uint64_t check_every = 500;
  std::mt19937_64 random(seed);
  std::uint64_t done = 0;
  std::uint64_t misses = 0;
  std::uint64_t stitches = 0;
  std::uint64_t moved_early = 0;
  while (done < operations) {
    Model model(options, config);
    const std::size_t most_blocks = 20 + random() % 400;
    for (std::uint64_t i = 0; i < operations_per_device && done < operations; ++i, ++done) {
      random_step(model, random, unit, most_blocks);
      if (i % check_every == 0) model.check();
      ASSERT_EQ(model.fault, "") << "seed " << seed << ", operation " << done;
    }
    misses += model.core.stats().misses;
    stitches += model.core.stats().stitches;
    if (model.core.stats().moved_early_bytes != 0) ++moved_early;
    model.finish();
    ASSERT_EQ(model.fault, "") << "seed " << seed << ", at the end, operation " << done;
  }
  // The test would prove little if what is rare never came about.
  EXPECT_GT(misses, operations / 100);
  EXPECT_GT(stitches, operations / 2000);
  EXPECT_EQ(moved_early > 0, !options.synchronous) << "moved before the device was done";
}

TEST(Random, InvariantsHoldOverStreamsEventsAndFailures) {
  run(tight_device(unit), tight_config(unit), number_from("CINCH_ALLOCATOR_OPS", 1'000'000),
      number_from("CINCH_ALLOCATOR_SEED", 1));
}

TEST(Random, InvariantsHoldWithFronts) {
  run(tight_device(unit), fronted_config(unit), number_from("CINCH_ALLOCATOR_OPS", 1'000'000) / 2,
      number_from("CINCH_ALLOCATOR_SEED", 1) + 3000);
}

// About as long as 300 operations, in which some ten misses fall.
TEST(Random, InvariantsHoldWhileTheDeviceLagsBehind) {
  FakeDriver::Options options = tight_device(unit);
  options.lag = 300;
  run(options, tight_config(unit), number_from("CINCH_ALLOCATOR_OPS", 1'000'000) / 2,
      number_from("CINCH_ALLOCATOR_SEED", 1) + 5000);
}

TEST(Random, InvariantsHoldWithASynchronousDriver) {
  FakeDriver::Options options = tight_device(unit);
  options.synchronous = true;
  options.instant = true;
  run(options, tight_config(unit), number_from("CINCH_ALLOCATOR_OPS", 1'000'000) / 4,
      number_from("CINCH_ALLOCATOR_SEED", 1) + 1000);
}

/// What several threads use, each its own, of one allocator; whoever overlaps is found out.
class Used {
 public:
  bool add(Address address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto next = blocks_.lower_bound(address);
    if (next != blocks_.end() && next->first < address + bytes) return false;
    if (next != blocks_.begin() && std::prev(next)->first + std::prev(next)->second > address) {
      return false;
    }
    blocks_.emplace(address, bytes);
    return true;
  }
  void remove(Address address) {
    const std::lock_guard lock(mutex_);
    blocks_.erase(address);
  }
  std::size_t count() const { return blocks_.size(); }

 private:
  std::mutex mutex_;
  std::map<Address, std::size_t> blocks_;
};

/// A thread's part of a round: allocates, uses in other streams, frees; every now and then a driver
/// call fails. Returns what it still uses.
void thread_round(Core& core, FakeDriver& fake, Used& used, std::atomic<std::uint64_t>& wrong,
                  std::mt19937_64& random, std::vector<Address>& mine, std::uint64_t operations) {
  constexpr Stream streams = 4;
  const auto give = [&](std::size_t index) {
    std::swap(mine[index], mine.back());
    const Address address = mine.back();
    mine.pop_back();
    used.remove(address);  // before the free: right after it, it may be another thread's
    if (!core.free(address)) ++wrong;
  };
  for (std::uint64_t i = 0; i < operations; ++i) {
    const Stream stream = random() % streams;
    const std::uint64_t kind = random() % 1000;
    if (kind < 500 && mine.size() < 40) {
      const std::size_t bytes = random_size(random, unit);
      const Address address = core.allocate(bytes, stream);
      if (address == 0) continue;
      mine.push_back(address);
      if (!used.add(address, bytes)) ++wrong;
    } else if (kind < 900) {
      if (!mine.empty()) give(random() % mine.size());
    } else if (kind < 940) {
      if (!mine.empty()) core.record_stream(mine[random() % mine.size()], stream);
    } else if (kind < 985) {
      fake.complete(stream);
    } else if (kind < 990) {
      core.release_idle();
    } else if (kind < 995) {
      fake.fail(static_cast<Call>(random() % call_count), 1 + random() % 20);
    } else if (!mine.empty()) {
      const Address address = mine[random() % mine.size()];
      const std::size_t bytes = core.size_of(address);
      if (bytes == 0 || core.behind(address).empty()) ++wrong;
      if (core.pin(address)) core.unpin(address, bytes);
    }
  }
}

void run_threads(const Config& config, std::uint64_t operations, std::uint64_t seed) {
  constexpr std::uint64_t threads = 4;
  constexpr std::uint64_t per_round = 2000;
  constexpr std::uint64_t rounds_per_device = 20;
  std::mt19937_64 seeds(seed);
  std::uint64_t misses = 0;
  for (std::uint64_t done = 0; done < operations;) {
    FakeDriver fake(tight_device(unit));
    Core core(fake.table(), config);
    Used used;
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::vector<Address>> blocks(threads);
    for (std::uint64_t round = 0; round < rounds_per_device && done < operations; ++round) {
      std::vector<std::thread> workers;
      for (std::uint64_t t = 0; t < threads; ++t, done += per_round) {
        workers.emplace_back([&, t, seed = seeds()] {
          std::mt19937_64 random(seed);
          thread_round(core, fake, used, wrong, random, blocks[t], per_round);
        });
      }
      for (std::thread& worker : workers) worker.join();
      std::string fault;
      ASSERT_TRUE(core.verify(fault)) << fault << ", operation " << done;
      ASSERT_EQ(wrong, 0u) << "operation " << done;
      ASSERT_EQ(core.stats().used_blocks, used.count());
      ASSERT_EQ(core.stats().reserved, fake.created_bytes());
      ASSERT_EQ(fake.misuses(), 0u);
    }
    misses += core.stats().misses;
    fake.stop_failing();
    for (const auto& mine : blocks) {
      for (const Address address : mine) ASSERT_TRUE(core.free(address));
    }
    fake.complete_all();
    core.release_idle();
    ASSERT_EQ(core.stats().allocated, 0u);
    ASSERT_EQ(fake.created_bytes(), 0u);
    ASSERT_EQ(fake.reserved_address_bytes(), 0u);
  }
  EXPECT_GT(misses, operations / 100);
}

TEST(Random, InvariantsHoldOverThreads) {
  run_threads(tight_config(unit), number_from("CINCH_ALLOCATOR_OPS", 1'000'000) / 2,
              number_from("CINCH_ALLOCATOR_SEED", 1) + 2000);
}

TEST(Random, InvariantsHoldOverThreadsWithFronts) {
  run_threads(fronted_config(unit), number_from("CINCH_ALLOCATOR_OPS", 1'000'000) / 2,
              number_from("CINCH_ALLOCATOR_SEED", 1) + 4000);
}

}  // namespace
}  // namespace cinch::allocator::test
