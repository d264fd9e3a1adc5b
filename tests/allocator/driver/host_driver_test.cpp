// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver/host_driver.h"

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allocator/core.h"

namespace cinch::allocator {
namespace {

constexpr std::size_t unit = HostDriver::granularity;

unsigned char* bytes_at(Address address) {
  return reinterpret_cast<unsigned char*>(address);
}

// Bytes of the range that have pages.
std::size_t resident(Address address, std::size_t bytes) {
  const std::size_t page = 4096;
  std::vector<unsigned char> pages(bytes / page);
  if (mincore(bytes_at(address), bytes, pages.data()) != 0) return SIZE_MAX;
  std::size_t count = 0;
  for (const unsigned char p : pages) count += p & 1;
  return count * page;
}

struct Host {
  HostDriver host;
  Driver d = host.table();

  Address reserve(std::size_t bytes) {
    Address at = 0;
    EXPECT_EQ(d.reserve(d.self, bytes, &at), Status::ok);
    return at;
  }
  Handle create() {
    Handle handle = 0;
    EXPECT_EQ(d.create(d.self, unit, &handle), Status::ok);
    return handle;
  }
  void map(Address at, Handle handle) {
    EXPECT_EQ(d.map(d.self, at, unit, handle), Status::ok);
    EXPECT_EQ(d.set_access(d.self, at, unit), Status::ok);
  }
  void unmap(Address at, Handle handle) {
    EXPECT_EQ(d.unmap(d.self, at, unit, handle), Status::ok);
  }
};

TEST(HostDriver, PagesMoveWithTheirHandle) {
  Host h;
  const Address at = h.reserve(4 * unit);
  const Handle handle = h.create();
  h.map(at, handle);
  std::memset(bytes_at(at), 7, unit);
  h.unmap(at, handle);
  h.map(at + 2 * unit, handle);
  EXPECT_EQ(resident(at + 2 * unit, unit), unit);
  EXPECT_EQ(bytes_at(at + 2 * unit)[unit - 1], 7) << "moved, not faulted in";
  EXPECT_EQ(resident(at, unit), 0u);
}

// The kernel may find out that it cannot move pages after it has unmapped the place for them.
TEST(HostDriver, SaysSoWhenPagesHaveNoPlaceAnyMore) {
  Host h;
  const Address at = h.reserve(4 * unit);
  const Handle handle = h.create();
  h.map(at, handle);
  bytes_at(at)[0] = 7;
  h.unmap(at, handle);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit full{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &full), 0);
  const Status mapped = h.d.map(h.d.self, at + 2 * unit, unit, handle);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(mapped, h.d.set_access(h.d.self, at + 2 * unit, unit));
  h.map(at, handle);
  EXPECT_EQ(bytes_at(at)[0], 0) << "faulted in anew";
}

TEST(HostDriver, HandlesSwapPagesRatherThanMoveThem) {
  Host h;
  const Address at = h.reserve(2 * unit);
  const Handle a = h.create();
  const Handle b = h.create();
  h.map(at, a);
  h.map(at + unit, b);
  bytes_at(at)[0] = 1;
  bytes_at(at + unit)[0] = 2;
  h.unmap(at, a);
  h.unmap(at + unit, b);
  h.map(at, b);
  h.map(at + unit, a);
  EXPECT_EQ(bytes_at(at)[0], 1);
  EXPECT_EQ(bytes_at(at + unit)[0], 2);
}

TEST(HostDriver, ReleasedPagesGoToTheKernel) {
  Host h;
  const Address at = h.reserve(2 * unit);
  const Handle handle = h.create();
  h.map(at, handle);
  std::memset(bytes_at(at), 1, unit);
  h.unmap(at, handle);
  EXPECT_EQ(h.d.release(h.d.self, handle), Status::ok);
  EXPECT_EQ(resident(at, unit), 0u);
  const Handle again = h.create();
  h.map(at, again);
  EXPECT_EQ(bytes_at(at)[0], 0) << "fresh from the kernel";
  h.unmap(at, again);
  EXPECT_EQ(h.d.release(h.d.self, again), Status::ok);
  EXPECT_EQ(h.d.unreserve(h.d.self, at, 2 * unit), Status::ok);
}

TEST(HostDriver, KnowsTheMachinesMemory) {
  Host h;
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(h.d.memory_info(h.d.self, &free, &total), Status::ok);
  EXPECT_GT(free, 0u);
  EXPECT_LE(free, total);
  EXPECT_LE(total, std::size_t(sysconf(_SC_PHYS_PAGES)) * std::size_t(sysconf(_SC_PAGESIZE)));
}

TEST(HostDriver, RefusesWhatNoAddressSpaceHas) {
  Host h;
  Address at = 0;
  EXPECT_EQ(h.d.reserve(h.d.self, SIZE_MAX - 1, &at), Status::out_of_addresses);
  EXPECT_EQ(h.d.reserve(h.d.self, std::size_t{1} << 60, &at), Status::out_of_addresses);
}

// The core over the host: blocks keep what is written to them through every move of others.
TEST(HostDriver, BlocksKeepTheirContents) {
  HostDriver host;
  Config config = Config::host();
  config.region_bytes = gibibyte;
  Core core(host.table(), config);
  struct Block {
    Address address;
    std::size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  std::mt19937_64 random(5);
  std::size_t used = 0;
  for (int i = 0; i < 4000; ++i) {
    if (random() % 2 == 0 && used < 200 * mebibyte) {
      const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? 30 * mebibyte : mebibyte);
      const Address address = core.allocate(bytes);
      ASSERT_NE(address, 0u);
      const auto mark = static_cast<unsigned char>(i);
      for (std::size_t k = 0; k < bytes; k += 65536) bytes_at(address)[k] = mark;
      bytes_at(address)[bytes - 1] = mark;
      blocks.push_back({address, bytes, mark});
      used += bytes;
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block block = blocks.back();
      blocks.pop_back();
      used -= block.bytes;
      for (std::size_t k = 0; k < block.bytes; k += 65536) {
        ASSERT_EQ(bytes_at(block.address)[k], block.mark);
      }
      ASSERT_EQ(bytes_at(block.address)[block.bytes - 1], block.mark);
      ASSERT_TRUE(core.free(block.address));
    }
    if (i % 1000 == 999) core.release_idle();
  }
  EXPECT_GT(core.stats().stitches, 0u);
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
}

// Steps of a training whose batches vary: what is resident stays near what is used at once, and
// what is idle goes back to the system.
TEST(HostDriver, ResidentMemoryFollowsWhatIsUsed) {
  for (const std::uint64_t idle_period : {Config::host().idle_period, std::uint64_t{8}}) {
    HostDriver host;
    Config config = Config::host();
    config.region_bytes = gibibyte;
    config.idle_period = idle_period;  // 8 ns are over whenever it is looked
    Core core(host.table(), config);
    const Address first = core.allocate(10 * mebibyte);
    std::memset(bytes_at(first), 1, 10 * mebibyte);
    std::mt19937_64 random(2);
    std::size_t most_resident = 0;
    const auto take = [&](std::size_t bytes) {
      const Address address = core.allocate(bytes);
      EXPECT_NE(address, 0u);
      std::memset(bytes_at(address), 1, bytes);
      return address;
    };
    for (int step = 0; step < 6; ++step) {
      const std::size_t batch = 20 + random() % 13;
      std::vector<std::pair<Address, std::size_t>> saved;
      for (std::size_t layer = 0; layer < 30; ++layer) {
        const std::size_t bytes = batch * (mebibyte + layer % 7 * 100'000) / 4;
        core.free(take(bytes / 2));
        saved.emplace_back(take(bytes), bytes);
      }
      for (; !saved.empty(); saved.pop_back()) {
        const Address gradient = take(saved.back().second);
        most_resident = std::max(most_resident, resident(first, config.region_bytes));
        core.free(saved.back().first);
        core.free(gradient);
      }
    }
    const Stats stats = core.stats();
    EXPECT_LE(most_resident, stats.peak_allocated + stats.peak_allocated / 20) << idle_period;
    for (int i = 0; i < 3; ++i) core.free(core.allocate(2 * mebibyte));
    const std::size_t left = resident(first, config.region_bytes);
    if (idle_period == 8) {
      EXPECT_LE(left, 15 * mebibyte);
    } else {
      EXPECT_GE(left, most_resident / 2) << "it may be wanted again";
    }
    EXPECT_EQ(bytes_at(first)[10 * mebibyte - 1], 1);
  }
}

TEST(HostDriver, AnImpossibleRequestGivesNothing) {
  HostDriver host;
  Core core(host.table(), Config::host());
  EXPECT_EQ(core.allocate(std::size_t{1} << 60), 0u);
  EXPECT_EQ(core.stats().reserved, 0u);
}

}  // namespace
}  // namespace cinch::allocator
