// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/saved/geometry.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cinch::hooks {
namespace {

TEST(Geometry, GivesBackSizesStridesAndOffset) {
  const at::Tensor base = at::zeros({4, 6, 8, 10});
  const std::vector<at::Tensor> tensors = {
      base,
      base.transpose(1, 3),
      base.contiguous(at::MemoryFormat::ChannelsLast),
      base.slice(2, 1, 7, 2),
      base.select(1, 3),
      at::zeros({3, 1, 5}).expand({3, 7, 5}),
      at::zeros({}),
      at::zeros({0}),
      at::zeros({3, 0, 5}),
      at::zeros({1, 5, 1}).as_strided({1, 5, 1},
                                      {77, 1, 13}),  // any stride will do for one element
      at::zeros({2, 3, 2, 3, 2, 3, 2}),
      at::zeros({2, 3, 2, 3, 2, 3, 2}).transpose(0, 6),
  };
  for (const at::Tensor& tensor : tensors) {
    const Geometry geometry(tensor);
    EXPECT_EQ(geometry.sizes(), tensor.sizes());
    EXPECT_EQ(c10::IntArrayRef(geometry.strides()), tensor.strides()) << tensor.sizes();
    EXPECT_EQ(geometry.offset(), tensor.storage_offset());
    EXPECT_EQ(geometry.rank(), static_cast<std::size_t>(tensor.dim()));
  }
}

TEST(Geometry, LeavesOutTheStridesOfContiguousTensors) {
  EXPECT_EQ(Geometry(at::zeros({4, 6})).words().size(), 2U);
  EXPECT_EQ(Geometry(at::zeros({4, 6}).t()).words().size(), 4U);
}

}  // namespace
}  // namespace cinch::hooks
