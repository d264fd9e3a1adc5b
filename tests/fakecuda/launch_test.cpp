// SPDX-License-Identifier: Apache-2.0
//
// The CUDA engine's launches, as nvcc compiles them, on a runtime that refuses some.
#include <memory>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "codecs/cuda/codec.h"
#include "codecs/cuda/library/load.h"
#include "codecs/cuda/succeeds.h"
#include "support.h"

namespace cinch::codecs::cuda {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

/// Encodes some values on the device, again and again.
class Launch : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(dlopen(FAKECUDA_KERNELS, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    use({.name = "sign"}, 1, 256);
  }

  /// For one plane.
  void use(const CodecSpec& spec, std::int64_t height, std::int64_t width) {
    codec_ = make_device_codec(spec);
    what_ = {ElementType::float32, {}, {1, 1, 1}};
    what_.layout = PlaneLayout::rows(height * width, height * width);
    what_.layout.extent = {1, height, width};
    what_.layout.stride = {height * width, width, 1};
    const std::vector<float> values(static_cast<std::size_t>(height * width), 1.5F);
    const std::size_t bytes = values.size() * sizeof(float);
    ASSERT_TRUE(codec_->accepts(what_));
    for (auto [memory, size] : {std::pair{&source_, bytes},
                                {&out_, make_codec(spec)->encoded_bytes(what_)},
                                {&scratch_, codec_->scratch_bytes(what_) + 1},
                                {&result_, sizeof(Result)}}) {
      ASSERT_EQ(cudaMalloc(memory, size), cudaSuccess);
    }
    ASSERT_EQ(cudaMemcpy(source_, values.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  }

  bool encode() {
    return codec_->encode(what_, source_, static_cast<std::byte*>(out_),
                          static_cast<Result*>(result_), scratch_, {}, nullptr);
  }

  std::shared_ptr<const DeviceCodec> codec_;
  Description what_;
  void *source_ = nullptr, *out_ = nullptr, *scratch_ = nullptr, *result_ = nullptr;
};

TEST_F(Launch, AFailureIsOfThatLaunchAlone) {
  ASSERT_TRUE(encode());
  fakecuda_fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
  EXPECT_FALSE(encode());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the program would take it for its own";
  EXPECT_TRUE(encode());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*static_cast<unsigned char*>(out_), 0xFF) << "all are positive";
}

TEST_F(Launch, TheProgramsErrorStaysItsOwn) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, std::size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_TRUE(encode()) << "the launch itself did not fail";
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  fakecuda_fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
  EXPECT_FALSE(encode());
  EXPECT_NE(cudaPeekAtLastError(), cudaSuccess) << "there still is an error for it to find";
  EXPECT_TRUE(encode());
  EXPECT_NE(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Launch, KernelsAreLoadedWhileThereIsMemory) {
  ASSERT_TRUE(load(*codec_, what_));
  fakecuda_set_memory(fakecuda_used(0));
  const std::uint64_t waits = fakecuda_host_syncs();
  EXPECT_TRUE(encode());
  EXPECT_EQ(fakecuda_host_syncs(), waits);
}

TEST_F(Launch, WhatCouldNotBeLoadedIsLoadedLater) {
  fakecuda_set_memory(fakecuda_used(0));
  EXPECT_FALSE(load(*codec_, what_));
  EXPECT_FALSE(encode());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  fakecuda_set_memory(fakecuda_used(0) + kPage);
  EXPECT_TRUE(load(*codec_, what_));
  EXPECT_TRUE(encode());
}

TEST_F(Launch, SharedMemoryIsAllowedOnceAndForAll) {
  // Tiles of one plane: 60 KB and 40 KB of shared memory, and 200 KB.
  const CodecSpec division = {.name = "division", .bits = 2};
  use(division, 125, 120);
  EXPECT_FALSE(encode()) << "the fake has CUDA's limit";
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_TRUE(load(*codec_, what_));
  EXPECT_EQ(fakecuda_calls("cudaFuncSetAttribute"), 1U);
  EXPECT_TRUE(encode());
  use(division, 125, 80);
  ASSERT_TRUE(load(*codec_, what_));
  EXPECT_TRUE(encode());
  use(division, 250, 200);
  ASSERT_TRUE(load(*codec_, what_));
  EXPECT_TRUE(encode());
  EXPECT_EQ(fakecuda_calls("cudaFuncSetAttribute"), 1U) << "to the largest at once";
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(Launch, UnalignedRowsHaveTheSharedMemoryTheyNeed) {
  use({.name = "division", .bits = 2}, 1, 15'000);
  what_.layout = PlaneLayout::rows(14'000, 14'000);
  ASSERT_TRUE(load(*codec_, what_));
  source_ = static_cast<float*>(source_) + 1;
  EXPECT_TRUE(encode());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace cinch::codecs::cuda
