// SPDX-License-Identifier: Apache-2.0
#include "allocator/host_driver.h"

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
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

TEST(HostDriver, AnImpossibleRequestGivesNothing) {
  HostDriver host;
  Core core(host.table(), Config::host());
  EXPECT_EQ(core.allocate(std::size_t{1} << 60), 0u);
  EXPECT_EQ(core.stats().reserved, 0u);
}

}  // namespace
}  // namespace cinch::allocator
