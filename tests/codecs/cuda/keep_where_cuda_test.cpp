// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "codecs/cuda/library/own_streams.h"
#include "codecs/cuda/masks/keep_where.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class KeepWhereCuda : public DeviceTest {};

void expect_kept(Random& random, std::size_t size, std::int64_t elements, std::size_t offset = 0,
                 cuda::Stream stream = nullptr) {
  const auto bytes = static_cast<std::size_t>(elements) * size;
  const auto drawn = [&](std::size_t count) {
    Bytes all(count);
    for (std::byte& each : all) each = static_cast<std::byte>(random());
    return all;
  };
  const Bytes bits = drawn(static_cast<std::size_t>(elements + 7) / 8);
  const Bytes x = drawn(offset + bytes);
  Bytes expected(x.begin() + static_cast<std::ptrdiff_t>(offset), x.end());
  for (std::size_t k = 0; k < static_cast<std::size_t>(elements); ++k) {
    if ((static_cast<unsigned>(bits[k / 8]) >> (k % 8) & 1U) != 0) continue;
    for (std::size_t b = 0; b < size; ++b) expected[k * size + b] = std::byte{0};
  }
  DeviceBytes mask(bits);
  DeviceBytes from(x);
  DeviceBytes to(bytes);
  std::byte* const source = from.data() + offset;
  ASSERT_TRUE(cuda::keep_where(size, elements, mask.data(), source, to.data(), stream));
  ASSERT_TRUE(cuda::keep_where(size, elements, mask.data(), source, source, stream));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(to.host(bytes), expected) << elements;
  const Bytes in_place = from.host(offset + bytes);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                         in_place.begin() + static_cast<std::ptrdiff_t>(offset)));
}

TEST_F(KeepWhereCuda, ByTheBit) {
  Random random(91);
  for (const std::size_t size : {2, 4}) {
    for (const std::int64_t elements : {1, 8, 13, 2048, 5003, 40000}) {
      expect_kept(random, size, elements);
      expect_kept(random, size, elements, size);
    }
  }
}

#ifdef CINCH_CUDA_ON_HOST
TEST_F(KeepWhereCuda, TakesFewBlocksInStreamsOfItsOwn) {
  auto* const stream = reinterpret_cast<cuda::Stream>(3200);  // NOLINT(performance-no-int-to-ptr)
  cuda::OwnStreams::add(stream, 1);
  Random random(92);
  cuda_on_host::kernels() = {};
  expect_kept(random, 2, 50000, 0, stream);
  EXPECT_LE(cuda_on_host::kernels().most_threads, 1024U);
}
#endif

}  // namespace
}  // namespace cinch::codecs::test
