// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "codecs/cuda/library/outcome.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class OutcomeCuda : public DeviceTest {};

Bytes counted(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

TEST_F(OutcomeCuda, WritesWhatTheHostHas) {
  for (const std::size_t size : {0, 1, 16, 3840, 3841, 9000}) {
    const Bytes expected = counted(size);
    DeviceBytes to(size);
    {
      Bytes read_at_once = expected;
      ASSERT_TRUE(cuda::write(to.data(), read_at_once.data(), size, nullptr));
      std::ranges::fill(read_at_once, std::byte{0xEE});
    }
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(to.host(size), expected) << size;
  }
}

TEST_F(OutcomeCuda, TheSourceStandsInWhereEncodingWasOfNoUse) {
  struct Case {
    cuda::Result result;
    bool source_stands_in;
  };
  for (const Case& each : {Case{{99, 0, 0}, false}, Case{{100, 0, 0}, true},
                           Case{{101, 0, 0}, true}, Case{{1, 1, 0}, true}}) {
    for (const std::size_t size : {0, 1, 15, 16, 4099, 100000}) {
      const Bytes exact = counted(size);
      const Bytes decoded(size, std::byte{0x11});
      DeviceBytes source(exact);
      DeviceBytes target(decoded);
      DeviceBytes result(sizeof each.result);
      ASSERT_TRUE(cuda::write(result.data(), &each.result, sizeof each.result, nullptr));
      ASSERT_TRUE(cuda::keep_source(reinterpret_cast<const cuda::Result*>(result.data()), 100,
                                    source.data(), target.data(), size, nullptr));
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_EQ(target.host(size), each.source_stands_in ? exact : decoded)
          << each.result.bytes << ' ' << size;
    }
  }
}

}  // namespace
}  // namespace cinch::codecs::test
