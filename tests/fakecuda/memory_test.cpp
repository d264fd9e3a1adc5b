// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/core.h"
#include "allocator/torch/cuda/driver/runtime_driver.h"
#include "support.h"

namespace fakecuda {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

CUmemAllocationProp properties() {
  CUmemAllocationProp p = {};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return p;
}

CUmemGenericAllocationHandle create(std::size_t bytes) {
  const CUmemAllocationProp p = properties();
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, bytes, &p, 0), CUDA_SUCCESS);
  return handle;
}

CUresult allow(CUdeviceptr address, std::size_t bytes) {
  CUmemAccessDesc access = {};
  access.location = properties().location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuMemSetAccess(address, bytes, &access, 1);
}

char* bytes_at(CUdeviceptr address) {
  return reinterpret_cast<char*>(address);
}

// Part of SharedMemory.CountsForAll that runs in another process: CUDA does not survive a fork.
TEST(SharedMemory, OtherProcess) {
  if (std::getenv("FAKECUDA_TEST_OTHER") == nullptr) GTEST_SKIP() << "has no other process";
  char c = 0;
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 3 * kPage), cudaSuccess);
  ASSERT_EQ(write(4, "t", 1), 1);
  ASSERT_EQ(read(3, &c, 1), 1);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&memory, 2 * kPage), cudaSuccess);
  ASSERT_EQ(write(4, "t", 1), 1);
  for (;;) pause();
}

TEST(SharedMemory, CountsForAll) {
  // The fake has read its environment already, so start this program anew with another one.
  if (std::getenv("FAKECUDA_SHARED") == nullptr) {
    std::string file = testing::TempDir() + "fakecuda-shared-XXXXXX";
    close(mkstemp(file.data()));
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("FAKECUDA_SHARED", file.c_str(), 1);
      setenv("FAKECUDA_MEMORY", std::to_string(4 * kPage).c_str(), 1);
      execl("/proc/self/exe", "fakecuda_test", "--gtest_filter=SharedMemory.CountsForAll", nullptr);
      _exit(1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    unlink(file.c_str());
    return;
  }
  const auto free_memory = [] {
    std::size_t free = 0;
    std::size_t total = 0;
    cudaMemGetInfo(&free, &total);
    return free;
  };
  int down[2];
  int up[2];
  ASSERT_EQ(pipe2(down, O_CLOEXEC) + pipe2(up, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    // The other process expects descriptors 3 and 4; move these away from those numbers first.
    const int from = fcntl(down[0], F_DUPFD, 10);
    const int to = fcntl(up[1], F_DUPFD, 10);
    dup2(from, 3);
    dup2(to, 4);
    setenv("FAKECUDA_TEST_OTHER", "1", 1);
    execl("/proc/self/exe", "fakecuda_test", "--gtest_filter=SharedMemory.OtherProcess", nullptr);
    _exit(1);
  }
  close(up[1]);
  char c = 0;
  void* memory = nullptr;
  ASSERT_EQ(read(up[0], &c, 1), 1);
  EXPECT_EQ(free_memory(), kPage);
  EXPECT_EQ(cudaMalloc(&memory, 2 * kPage), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&memory, kPage), cudaSuccess);
  EXPECT_EQ(free_memory(), 0u);
  EXPECT_EQ(fakecuda_used(0), kPage) << "its own";
  ASSERT_EQ(write(down[1], "t", 1), 1);
  ASSERT_EQ(read(up[0], &c, 1), 1);
  EXPECT_EQ(free_memory(), kPage);
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_EQ(free_memory(), 3 * kPage) << "what a killed process had";
  cudaFree(memory);
}

TEST(Memory, IsLimitedAndComesBack) {
  fakecuda_set_memory(3 * kPage);
  void *a = nullptr, *b = nullptr, *c = nullptr;
  ASSERT_EQ(cudaMalloc(&a, kPage + 1), cudaSuccess);
  EXPECT_EQ(fakecuda_used(0), 2 * kPage);
  EXPECT_EQ(cudaMalloc(&b, 2 * kPage), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&c, 1), cudaSuccess);
  std::size_t free = 1, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, 3 * kPage);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaErrorInvalidValue);
  EXPECT_EQ(fakecuda_used(0), kPage);
}

TEST(Memory, OneHandleBehindTwoAddressesIsOneMemory) {
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, 4 * kPage, 0, 0, 0), CUDA_SUCCESS);
  const auto one = create(kPage);
  const auto two = create(kPage);
  ASSERT_EQ(cuMemMap(address, kPage, 0, one, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address + kPage, kPage, 0, two, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address + 2 * kPage, kPage, 0, one, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(address, 3 * kPage), CUDA_SUCCESS);
  std::memset(bytes_at(address), 1, kPage);
  std::memset(bytes_at(address + kPage), 2, kPage);
  EXPECT_EQ(*bytes_at(address + 2 * kPage), 1);
  *bytes_at(address + 3 * kPage - 1) = 7;
  EXPECT_EQ(*bytes_at(address + kPage - 1), 7);

  // Contents move with the handle. Stitching needs that.
  ASSERT_EQ(cuMemUnmap(address + kPage, kPage), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address + 3 * kPage, kPage, 0, two, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(address + 3 * kPage, kPage), CUDA_SUCCESS);
  EXPECT_EQ(*bytes_at(address + 3 * kPage), 2);

  EXPECT_EQ(cuMemRelease(one), CUDA_SUCCESS);
  EXPECT_EQ(fakecuda_used(0), 2 * kPage) << "released, but mapped";
  EXPECT_EQ(cuMemUnmap(address, kPage), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(address + 2 * kPage, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(fakecuda_used(0), kPage);
  EXPECT_EQ(cuMemRelease(two), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(address, 4 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(fakecuda_used(0), 0u);
}

TEST(Memory, PoisonIsWhatFreshMemoryHoldsAndNotWhatWasWritten) {
  fakecuda_set_poison(1);
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, kPage, 0, 0, 0), CUDA_SUCCESS);
  const auto handle = create(kPage);
  for (const char expected : {'\xFF', 'x'}) {
    ASSERT_EQ(cuMemMap(address, kPage, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(allow(address, kPage), CUDA_SUCCESS);
    EXPECT_EQ(*bytes_at(address), expected);
    std::memset(bytes_at(address), 'x', kPage);
    ASSERT_EQ(cuMemUnmap(address, kPage), CUDA_SUCCESS);
  }
  EXPECT_DEATH(bytes_at(address)[0] = 1, "") << "what is unmapped traps";
}

TEST(Memory, MisuseOfMappingsFails) {
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, 4 * kPage, 0, 0, 0), CUDA_SUCCESS);
  const auto handle = create(2 * kPage);
  EXPECT_EQ(cuMemMap(address + 1, kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address + 3 * kPage, 2 * kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(address, 2 * kPage, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address + kPage, 2 * kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address, kPage), CUDA_ERROR_INVALID_VALUE) << "cut through a mapping";
  EXPECT_EQ(allow(address, 3 * kPage), CUDA_ERROR_INVALID_VALUE) << "not all of it is mapped";
  EXPECT_EQ(cuMemAddressFree(address, 4 * kPage), CUDA_ERROR_INVALID_VALUE) << "still mapped";
  EXPECT_EQ(cuMemRelease(handle + 1000), CUDA_ERROR_INVALID_VALUE);
}

TEST(Memory, WorkOnMemoryThatIsGoneBreaksTheContext) {
  CUdeviceptr address = 0;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cuMemAddressReserve(&address, kPage, 0, 0, 0), CUDA_SUCCESS);
  const auto handle = create(kPage);
  ASSERT_EQ(cuMemMap(address, kPage, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(allow(address, kPage), CUDA_SUCCESS);
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  ASSERT_EQ(cudaMemsetAsync(bytes_at(address), 1, kPage, stream), cudaSuccess);
  ASSERT_EQ(cuMemUnmap(address, kPage), CUDA_SUCCESS);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(fakecuda_faults(), 1u);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
}

TEST(Memory, CopiesOfPageableMemoryDoNotWaitForTheirTurn) {
  void* device = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 100), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  std::string text(100, 'x');
  ASSERT_EQ(cudaMemcpyAsync(device, text.data(), 100, cudaMemcpyHostToDevice, stream), cudaSuccess);
  text.assign(100, 'y');
  EXPECT_EQ(fakecuda_host_syncs(), 0u);
  ASSERT_EQ(cudaMemcpyAsync(text.data(), device, 100, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(text, std::string(100, 'x'));
  EXPECT_EQ(fakecuda_host_syncs_of("cudaMemcpyAsync"), 1u);

  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 100, 0), cudaSuccess);
  std::memset(pinned, 'a', 100);
  ASSERT_EQ(cudaMemcpyAsync(device, pinned, 100, cudaMemcpyHostToDevice, stream), cudaSuccess);
  std::memset(pinned, 'b', 100);  // too early: the copy will read these
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*static_cast<char*>(device), 'b');
}

TEST(Memory, PointersSayWhatTheyAre) {
  void *device = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 1), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, 1, 0), cudaSuccess);
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, static_cast<char*>(device) + 5), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &attributes), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST(Memory, PoisonIsNotANumberInAnyType) {
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 64), cudaSuccess);
  fakecuda_poison(device, 64);
  EXPECT_TRUE(*static_cast<float*>(device) != *static_cast<float*>(device));
  EXPECT_TRUE(*static_cast<double*>(device) != *static_cast<double*>(device));
}

TEST(Memory, PoisonIsWorkOfTheDeviceThatHasTheMemory) {
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  void* memory = nullptr;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  std::memset(memory, 0, 64);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  fakecuda_poison_async(memory, 64, 1, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*static_cast<char*>(memory), 0);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_NE(*static_cast<char*>(memory), 0);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

/// Tests the allocator's CUDA driver.
TEST(RuntimeDriverOnFake, CarriesTheAllocatorWhichStitches) {
  namespace allocator = cinch::allocator;
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  allocator::RuntimeDriver cuda(0);
  ASSERT_TRUE(cuda.usable()) << cuda.fault();
  {
    allocator::Core core(cuda.table());
    std::vector<allocator::Address> held;
    for (int i = 0; i < 8; ++i) {
      held.push_back(core.allocate(20 * kMebibyte));
      ASSERT_NE(held.back(), 0u);
      std::memset(reinterpret_cast<void*>(held.back()), i, 20 * kMebibyte);
    }
    for (std::size_t i = 0; i < held.size(); i += 2) ASSERT_TRUE(core.free(held[i]));
    const std::size_t before = fakecuda_used(0);
    fakecuda_set_memory(before);
    const allocator::Address large = core.allocate(60 * kMebibyte);
    ASSERT_NE(large, 0u) << "from memory that lies apart, since there is no other";
    std::memset(reinterpret_cast<void*>(large), 99, 60 * kMebibyte);
    EXPECT_LE(fakecuda_used(0), before);
    for (std::size_t i = 1; i < held.size(); i += 2) {
      const char* kept = reinterpret_cast<const char*>(held[i]);
      EXPECT_EQ(kept[0], static_cast<char>(i));
      EXPECT_EQ(kept[20 * kMebibyte - 1], static_cast<char>(i));
      ASSERT_TRUE(core.free(held[i]));
    }
    ASSERT_TRUE(core.free(large));
    std::string fault;
    EXPECT_TRUE(core.verify(fault)) << fault;
    EXPECT_EQ(fakecuda_faults(), 0u);
  }
  EXPECT_EQ(fakecuda_used(0), 0u);
}

TEST(RuntimeDriverOnFake, EveryFailingCallLeavesTheAllocatorWhole) {
  namespace allocator = cinch::allocator;
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  for (std::uint64_t nth = 1; nth < 60; ++nth) {
    allocator::RuntimeDriver cuda(0);
    ASSERT_TRUE(cuda.usable());
    allocator::Core core(cuda.table());
    fakecuda_fail("*", nth, CUDA_ERROR_OUT_OF_MEMORY);
    std::vector<allocator::Address> held;
    for (int i = 1; i < 6; ++i) {
      if (const allocator::Address a = core.allocate(7 * kMebibyte * i)) held.push_back(a);
    }
    fakecuda_stop_failing();
    for (const allocator::Address a : held) ASSERT_TRUE(core.free(a));
    std::string fault;
    EXPECT_TRUE(core.verify(fault)) << nth << ": " << fault;
  }
  EXPECT_EQ(fakecuda_used(0), 0u);
}

TEST(RuntimeDriverOnFake, SaysWhyItCannotBeUsed) {
  for (const int device : {-1, 5, 12345}) {
    const cinch::allocator::RuntimeDriver cuda(device);
    EXPECT_FALSE(cuda.usable());
    EXPECT_FALSE(cuda.fault().empty());
  }
}

/// Creates a handle on the first device. @return its properties
CUmemAllocationProp created(cinch::allocator::RuntimeDriver& cuda) {
  const cinch::allocator::Driver driver = cuda.table();
  cinch::allocator::Handle handle = 0;
  EXPECT_EQ(driver.create(driver.self, kPage, &handle), cinch::allocator::Status::ok);
  CUmemAllocationProp found = {};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&found, handle), CUDA_SUCCESS);
  EXPECT_EQ(cuda.export_handle(handle) >= 0, found.requestedHandleTypes != 0);
  EXPECT_EQ(driver.release(driver.self, handle), cinch::allocator::Status::ok);
  return found;
}

TEST(RuntimeDriverOnFake, AsksOfMemoryWhatTheDeviceHas) {
  for (const bool exports : {true, false}) {
    for (const bool rdma : {true, false}) {
      fakecuda_set_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                             exports ? 1 : 0);
      fakecuda_set_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                             rdma ? 1 : 0);
      cinch::allocator::RuntimeDriver cuda(0);
      ASSERT_TRUE(cuda.usable()) << cuda.fault();
      const std::uint64_t calls = fakecuda_calls("cuMemCreate");
      const CUmemAllocationProp found = created(cuda);
      EXPECT_EQ(fakecuda_calls("cuMemCreate"), calls + 1);
      EXPECT_EQ(found.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, exports);
      EXPECT_EQ(found.allocFlags.gpuDirectRDMACapable == 1, rdma);
    }
  }
}

TEST(RuntimeDriverOnFake, DoesWithoutWhatTheSystemRefuses) {
  // As in a container where a device promises more than it may do.
  fakecuda_fail("cuMemGetAllocationGranularity", 1, CUDA_ERROR_NOT_PERMITTED);
  cinch::allocator::RuntimeDriver fewer(0);
  ASSERT_TRUE(fewer.usable()) << fewer.fault();
  EXPECT_EQ(created(fewer).allocFlags.gpuDirectRDMACapable, 0);

  cinch::allocator::RuntimeDriver all(0);
  for (const std::uint64_t nth : {1, 2, 3})
    fakecuda_fail("cuMemCreate", nth, CUDA_ERROR_NOT_PERMITTED);
  const CUmemAllocationProp found = created(all);
  EXPECT_EQ(found.requestedHandleTypes, CU_MEM_HANDLE_TYPE_NONE);
  EXPECT_EQ(found.allocFlags.gpuDirectRDMACapable, 0);
  EXPECT_EQ(created(all).allocFlags.gpuDirectRDMACapable, 1) << "once does not mean always";
}

TEST(RuntimeDriverOnFake, MakesAContextOnItsDeviceAlone) {
  cinch::allocator::RuntimeDriver cuda(1);
  ASSERT_TRUE(cuda.usable()) << cuda.fault() << ": set FAKECUDA_DEVICES=2";
  {
    cinch::allocator::Core core(cuda.table());
    const cinch::allocator::Address block = core.allocate(kPage);
    ASSERT_NE(block, 0u);
    ASSERT_TRUE(core.record_stream(block, 0x2));
    ASSERT_TRUE(core.free(block));
    EXPECT_GT(core.release_idle(), 0u);
  }
  EXPECT_TRUE(cuda.synchronize());
  EXPECT_EQ(fakecuda_has_context(0), 0);
  EXPECT_EQ(fakecuda_has_context(1), 1);
  int device = -1;
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0) << "the program's";
}

TEST(RuntimeDriverOnFake, WaitsForAStreamThatIsGoneByWaitingForAll) {
  cinch::allocator::RuntimeDriver cuda(0);
  ASSERT_TRUE(cuda.usable()) << cuda.fault();
  const cinch::allocator::Driver driver = cuda.table();
  cudaStream_t stream = nullptr;
  cinch::allocator::Event event = 0;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(driver.event_create(driver.self, &event), cinch::allocator::Status::ok);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  const std::uint64_t waits = fakecuda_host_syncs_of("cudaDeviceSynchronize");
  EXPECT_EQ(
      driver.event_record(driver.self, event, reinterpret_cast<cinch::allocator::Stream>(stream)),
      cinch::allocator::Status::ok);
  EXPECT_EQ(fakecuda_host_syncs_of("cudaDeviceSynchronize"), waits + 1);
  EXPECT_EQ(driver.event_query(driver.self, event), cinch::allocator::Status::ok);
  EXPECT_EQ(driver.event_destroy(driver.self, event), cinch::allocator::Status::ok);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(RuntimeDriverOnFake, LeavesTheProgramsErrorAndNoneOfItsOwn) {
  cinch::allocator::RuntimeDriver cuda(0);
  ASSERT_TRUE(cuda.usable()) << cuda.fault();
  const cinch::allocator::Driver driver = cuda.table();
  cinch::allocator::Event event = 0;
  fakecuda_fail("cudaEventCreateWithFlags", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(driver.event_create(driver.self, &event), cinch::allocator::Status::out_of_memory);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  fakecuda_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(driver.event_create(driver.self, &event), cinch::allocator::Status::ok);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  fakecuda_fail("cudaEventQuery", 1, cudaErrorNotReady);
  EXPECT_EQ(driver.event_query(driver.self, event), cinch::allocator::Status::not_ready);
  EXPECT_EQ(driver.event_destroy(driver.self, event), cinch::allocator::Status::ok);
  EXPECT_NE(cudaGetLastError(), cudaSuccess) << "there still is an error for it to find";
}

TEST(RuntimeDriverOnFake, SharesAHandle) {
  namespace allocator = cinch::allocator;
  allocator::RuntimeDriver cuda(0);
  ASSERT_TRUE(cuda.usable()) << cuda.fault();
  const allocator::Driver driver = cuda.table();
  allocator::Handle handle = 0;
  allocator::Address address = 0;
  ASSERT_EQ(driver.create(driver.self, kPage, &handle), allocator::Status::ok);
  ASSERT_EQ(driver.reserve(driver.self, 2 * kPage, &address), allocator::Status::ok);
  ASSERT_EQ(driver.map(driver.self, address, kPage, handle), allocator::Status::ok);
  ASSERT_EQ(driver.set_access(driver.self, address, kPage), allocator::Status::ok);
  std::memset(bytes_at(address), 'x', kPage);
  const int descriptor = cuda.export_handle(handle);
  ASSERT_GE(descriptor, 0);
  allocator::Handle imported = 0;
  ASSERT_EQ(cuda.import_handle(descriptor, &imported), allocator::Status::ok);
  close(descriptor);
  EXPECT_EQ(cuda.import_handle(descriptor, &imported), allocator::Status::failed);
  ASSERT_EQ(driver.map(driver.self, address + kPage, kPage, imported), allocator::Status::ok);
  ASSERT_EQ(driver.set_access(driver.self, address + kPage, kPage), allocator::Status::ok);
  EXPECT_EQ(bytes_at(address)[2 * kPage - 1], 'x');
  bytes_at(address)[kPage] = 'y';
  EXPECT_EQ(bytes_at(address)[0], 'y');
  EXPECT_EQ(fakecuda_used(0), kPage) << "counted once";
  ASSERT_EQ(driver.unmap(driver.self, address, kPage, handle), allocator::Status::ok);
  ASSERT_EQ(driver.release(driver.self, handle), allocator::Status::ok);
  EXPECT_EQ(bytes_at(address)[kPage], 'y') << "whoever imported it still has it";
  ASSERT_EQ(driver.unmap(driver.self, address + kPage, kPage, imported), allocator::Status::ok);
  ASSERT_EQ(driver.release(driver.self, imported), allocator::Status::ok);
  EXPECT_EQ(driver.unreserve(driver.self, address, 2 * kPage), allocator::Status::ok);

  CUmemGenericAllocationHandle unshared = create(kPage);
  EXPECT_LT(cuda.export_handle(unshared), 0) << "it was not made to be shared";
  cuMemRelease(unshared);
}

}  // namespace
}  // namespace fakecuda
