// SPDX-License-Identifier: Apache-2.0
// The host waits for the device without the core's lock.
#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

/// Four blocks of 4 MiB in stream 1. The first and the third are free, but the device still works
/// with them.
struct Device {
  explicit Device(std::size_t memory)
      : fake({.memory_bytes = memory, .instant = false}), core(fake.table(), config()) {
    for (Address& block : blocks) block = core.allocate(4 * mebibyte, 1);
    fake.work(1);
    core.free(blocks[0]);
    core.free(blocks[2]);
  }
  ~Device() {
    std::string fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
    EXPECT_EQ(fake.misuses(), 0u);
  }
  static Config config() {
    Config config;
    config.large_page = config.least_large_page = 2 * mebibyte;
    return config;
  }

  FakeDriver fake;
  Core core;
  Address blocks[4];
};

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

TEST(WaitForTheDevice, OtherThreadsAllocateAndFreeMeanwhile) {
  Device device(16 * mebibyte);
  bool served = false;
  std::future<Address> other;
  device.fake.on_synchronize([&] {
    other = std::async(std::launch::async, [&] { return device.core.allocate(4 * mebibyte, 1); });
    served = other.wait_for(10s) == std::future_status::ready;
    if (served) device.core.free(other.get());
  });
  EXPECT_NE(device.core.allocate(8 * mebibyte, 2), 0u);
  EXPECT_TRUE(served) << "the lock was held";
  EXPECT_EQ(device.core.stats().host_waits, 1u);
}

TEST(WaitForTheDevice, ReleasingWaitsWithoutTheLockToo) {
  Device device(64 * mebibyte);
  bool served = false;
  device.fake.on_synchronize([&] {
    auto other = std::async(std::launch::async, [&] { return device.core.stats().reserved; });
    served = other.wait_for(10s) == std::future_status::ready;
  });
  EXPECT_EQ(device.core.release_idle(), 8 * mebibyte);
  EXPECT_TRUE(served) << "the lock was held";
}

// The program goes on meanwhile, so an event recorded after the wait tells nothing.
TEST(WaitForTheDevice, WhatWasFreeBeforeItIsGivenBackAfterIt) {
  Device device(64 * mebibyte);
  device.core.record_stream(device.blocks[1], 3);
  device.fake.work(3);
  device.core.free(device.blocks[1]);
  device.fake.on_synchronize([&] {
    for (const Stream stream : {1, 3}) device.fake.work(stream);
  });
  EXPECT_EQ(device.core.release_idle(), 12 * mebibyte);
}

// A graph capture must find no wait under way, and what waited may not move memory afterwards.
TEST(WaitForTheDevice, APauseBeginsAfterItAndIsHeeded) {
  Device device(16 * mebibyte);
  device.core.record_stream(device.blocks[1], 3);
  device.fake.work(3);
  device.core.free(device.blocks[1]);
  std::promise<void> begins;
  std::future<void> pausing;
  bool paused_meanwhile = true;
  std::uint64_t queries = 0;
  device.fake.on_synchronize([&] {
    if (pausing.valid()) return;
    queries = device.fake.calls(Call::event_query);
    pausing = std::async(std::launch::async, [&] {
      begins.set_value();
      device.core.pause();
    });
    begins.get_future().wait();
    paused_meanwhile = pausing.wait_for(200ms) == std::future_status::ready;
  });
  EXPECT_EQ(device.core.allocate(8 * mebibyte, 2), 0u);
  EXPECT_FALSE(paused_meanwhile);
  EXPECT_EQ(device.fake.calls(Call::event_query), queries);
  pausing.get();
  EXPECT_EQ(device.fake.calls(Call::unmap), 0u);
  device.fake.on_synchronize(nullptr);
  device.core.resume();
  EXPECT_NE(device.core.allocate(8 * mebibyte, 2), 0u);
}

}  // namespace
}  // namespace cinch::allocator
