// SPDX-License-Identifier: Apache-2.0
//
// The core over the driver of the machine: CUDA's on a GPU (scripts/gpu-check), the fake's
// elsewhere.

#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "allocator/core.h"
#include "allocator/torch/cuda/driver/runtime_driver.h"

namespace cinch::allocator {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

void fill(Address address, int byte, std::size_t bytes, cudaStream_t stream = nullptr) {
  ASSERT_EQ(cudaMemsetAsync(pointer(address), byte, bytes, stream), cudaSuccess);
}

/// Whether all `bytes` are `byte`, once the device is done.
bool holds(Address address, int byte, std::size_t bytes) {
  std::string found(bytes, '\0');
  if (cudaDeviceSynchronize() != cudaSuccess) return false;
  if (cudaMemcpy(found.data(), pointer(address), bytes, cudaMemcpyDeviceToHost) != cudaSuccess)
    return false;
  return found == std::string(bytes, static_cast<char>(byte));
}

class DeviceAllocator : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cuda_.usable()) << cuda_.fault(); }
  void TearDown() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error was left behind";
  }

  RuntimeDriver cuda_{0};
};

TEST_F(DeviceAllocator, StitchesMemoryThatLiesApartAndKeepsWhatIsInUse) {
  Core core(cuda_.table());
  std::vector<Address> held;
  for (int i = 0; i < 8; ++i) {
    held.push_back(core.allocate(20 * kMebibyte));
    ASSERT_NE(held.back(), 0u);
    fill(held.back(), i, 20 * kMebibyte);
  }
  for (std::size_t i = 0; i < held.size(); i += 2) ASSERT_TRUE(core.free(held[i]));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  core.set_limit(160 * kMebibyte);
  const Address large = core.allocate(60 * kMebibyte);
  ASSERT_NE(large, 0u) << "from memory that lies apart, since there is no other";
  fill(large, 99, 60 * kMebibyte);
  EXPECT_TRUE(holds(large, 99, 60 * kMebibyte));
  for (std::size_t i = 1; i < held.size(); i += 2) {
    EXPECT_TRUE(holds(held[i], static_cast<int>(i), 20 * kMebibyte));
    ASSERT_TRUE(core.free(held[i]));
  }
  ASSERT_TRUE(core.free(large));
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
}

TEST_F(DeviceAllocator, MemoryThatAnotherStreamUsesIsNotGivenAgainBeforeItIsDone) {
  Core core(cuda_.table());
  cudaStream_t side = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), cudaSuccess);
  for (int round = 0; round < 20; ++round) {
    const Address source = core.allocate(8 * kMebibyte);
    const Address result = core.allocate(8 * kMebibyte);
    ASSERT_NE(source, 0u);
    ASSERT_NE(result, 0u);
    fill(source, 5, 8 * kMebibyte);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (int i = 0; i < 50; ++i) {  // keeps the stream at work
      ASSERT_EQ(cudaMemcpyAsync(pointer(result), pointer(source), 8 * kMebibyte,
                                cudaMemcpyDeviceToDevice, side),
                cudaSuccess);
    }
    ASSERT_TRUE(core.record_stream(source, reinterpret_cast<Stream>(side)));
    ASSERT_TRUE(core.free(source));
    const Address next = core.allocate(8 * kMebibyte);
    ASSERT_NE(next, 0u);
    fill(next, 7, 8 * kMebibyte);
    EXPECT_TRUE(holds(result, 5, 8 * kMebibyte)) << round;
    ASSERT_TRUE(core.free(next));
    ASSERT_TRUE(core.free(result));
  }
  EXPECT_EQ(cudaStreamDestroy(side), cudaSuccess);
}

TEST_F(DeviceAllocator, FreeMemoryGoesBackToTheDevice) {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  Core core(cuda_.table());
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  const Address block = core.allocate(256 * kMebibyte);
  ASSERT_NE(block, 0u);
  fill(block, 1, 256 * kMebibyte);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_LE(after + 256 * kMebibyte, before);
  ASSERT_TRUE(core.free(block));
  EXPECT_GE(core.release_idle(), 256 * kMebibyte);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_GE(after + 8 * kMebibyte, before) << "the driver may keep a little";
}

TEST_F(DeviceAllocator, MoreThanTheDeviceHasIsRefusedAndTheAllocatorGoesOn) {
  Core core(cuda_.table());
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(core.allocate(total + total / 4), 0u);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const Address block = core.allocate(20 * kMebibyte);
  ASSERT_NE(block, 0u);
  fill(block, 3, 20 * kMebibyte);
  EXPECT_TRUE(holds(block, 3, 20 * kMebibyte));
  ASSERT_TRUE(core.free(block));
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
}

TEST_F(DeviceAllocator, AHandleIsSharedByDescriptor) {
  const Driver driver = cuda_.table();
  const std::size_t page = driver.granularity;
  Handle handle = 0;
  Handle imported = 0;
  Address address = 0;
  ASSERT_EQ(driver.create(driver.self, page, &handle), Status::ok);
  const int descriptor = cuda_.export_handle(handle);
  if (descriptor < 0) {
    EXPECT_EQ(driver.release(driver.self, handle), Status::ok);
    GTEST_SKIP() << "this driver shares no memory by descriptor";
  }
  ASSERT_EQ(cuda_.import_handle(descriptor, &imported), Status::ok);
  close(descriptor);
  ASSERT_EQ(driver.reserve(driver.self, 2 * page, &address), Status::ok);
  ASSERT_EQ(driver.map(driver.self, address, page, handle), Status::ok);
  ASSERT_EQ(driver.map(driver.self, address + page, page, imported), Status::ok);
  ASSERT_EQ(driver.set_access(driver.self, address, 2 * page), Status::ok);
  fill(address, 'x', page);
  EXPECT_TRUE(holds(address + page, 'x', page)) << "one memory at two addresses";
  ASSERT_EQ(driver.unmap(driver.self, address, page, handle), Status::ok);
  ASSERT_EQ(driver.release(driver.self, handle), Status::ok);
  EXPECT_TRUE(holds(address + page, 'x', page)) << "whoever imported it still has it";
  ASSERT_EQ(driver.unmap(driver.self, address + page, page, imported), Status::ok);
  ASSERT_EQ(driver.release(driver.self, imported), Status::ok);
  EXPECT_EQ(driver.unreserve(driver.self, address, 2 * page), Status::ok);
}

}  // namespace
}  // namespace cinch::allocator
