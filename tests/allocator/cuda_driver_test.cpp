// SPDX-License-Identifier: Apache-2.0
#include "allocator/cuda_driver.h"

#include <gtest/gtest.h>

#include "allocator/core.h"

namespace cinch::allocator {
namespace {

TEST(CudaDriver, SaysWhyItCannotBeUsedOrCarriesTheAllocator) {
  CudaDriver cuda(0);
  if (!cuda.usable()) {
    EXPECT_FALSE(cuda.fault().empty());
    return;
  }
  Core core(cuda.table());
  const Address a = core.allocate(30 * mebibyte);
  ASSERT_NE(a, 0u);
  EXPECT_TRUE(core.free(a));
  EXPECT_GE(core.release_idle(), 30 * mebibyte);
  std::string fault;
  EXPECT_TRUE(core.verify(fault)) << fault;
}

TEST(CudaDriver, ThereIsNoDeviceOfAnImpossibleNumber) {
  const CudaDriver cuda(12345);
  EXPECT_FALSE(cuda.usable());
  EXPECT_FALSE(cuda.fault().empty());
}

}  // namespace
}  // namespace cinch::allocator
