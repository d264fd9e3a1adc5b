// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/codecs/cuda/device_support.h"
#include "tests/codecs/formats/two_sided_cases.h"

namespace cinch::codecs::test {
namespace {

class TwoSidedCuda : public DeviceTest {};

/// Numbers by channel in device memory.
class DeviceSides {
 public:
  explicit DeviceSides(const SidedCase& c) {
    sides_ = c.what.sides;
    sides_.factor = moved(c.what.sides.factor, c.factor);
    sides_.summand = moved(c.what.sides.summand, c.summand);
    sides_.center = moved(c.what.sides.center, c.center);
    sides_.spread = moved(c.what.sides.spread, c.spread);
  }

  const Description::Sides& sides() const { return sides_; }

 private:
  const float* moved(const float* given, const std::vector<float>& numbers) {
    if (given == nullptr) return nullptr;
    Bytes bytes(numbers.size() * sizeof(float));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    memory_.push_back(std::make_unique<DeviceBytes>(bytes));
    return reinterpret_cast<const float*>(memory_.back()->data());
  }

  std::vector<std::unique_ptr<DeviceBytes>> memory_;
  Description::Sides sides_;
};

/// The device's bytes and elements are the reference's. @param offset as of device_encode
void expect_like_reference(const SidedCase& c, std::size_t offset = 0) {
  SCOPED_TRACE(c.words());
  const DeviceSides device(c);
  Description there = c.what;
  there.sides = device.sides();
  const auto reference = make_codec(c.spec, Engine::reference);
  const auto codec = cuda::make_device_codec(c.spec);
  ASSERT_TRUE(codec->accepts(there));
#ifdef CINCH_CUDA_ON_HOST
  cuda_on_host::kernels() = {};
#endif
  ASSERT_TRUE(cuda::load(*codec, there));
  const Encoding expected = encode_any(*reference, c.what, c.source, c.key);
  const DeviceEncoded actual = device_encode(*codec, *reference, there, c.source, c.key, offset);
  ASSERT_EQ(actual.representable, expected.representable);
  ASSERT_EQ(actual.bytes.size(), expected.bytes.size());
  for (std::size_t i = 0; i < actual.bytes.size(); ++i) {
    ASSERT_EQ(int(actual.bytes[i]), int(expected.bytes[i])) << i;
  }
  const Description plain{.type = c.what.type, .layout = c.what.layout};
  for (const Reads reads : {Reads::sign, Reads::values}) {
    ASSERT_EQ(device_decode(*codec, plain, expected.bytes, reads, offset),
              decode(*reference, plain, expected.bytes, reads))
        << int(reads);
  }
#ifdef CINCH_CUDA_ON_HOST
  const auto& kernels = cuda_on_host::kernels();
  EXPECT_TRUE(offset % 16 != 0 || std::ranges::includes(kernels.loaded, kernels.launched))
      << "a kernel is loaded when it is launched";
#endif
}

TEST_F(TwoSidedCuda, WritesTheReferencesBytes) {
  Random random(51);
  for (int round = 0; round < rounds(80) && !testing::Test::HasFailure(); ++round) {
    const SidedCase c(random, round % 4 == 0);
    expect_like_reference(c, round % 5 == 0 ? element_size(c.what.type) : 0);
  }
}

// Whole groups and others, and planes that end within a group or within eight elements.
TEST_F(TwoSidedCuda, ContiguousPlanesWithChannelsOfAllLengths) {
  Random random(52);
  for (const std::int64_t run : {1, 3, 7, 8, 16, 49, 64, 196, 1024}) {
    for (const int group : {32, 256, 512}) {
      for (const int bits : {2, 3, 8}) {
        SidedCase c(random, false);
        c.what.layout = contiguous(2, {2048 / run + 1, 1, run});
        c.spec.group = group;
        c.spec.bits = bits;
        c.make_numbers(random, run, true);
        c.source = make_source(c.what, random_values(random, c.what.layout, false));
        expect_like_reference(c);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(TwoSidedCuda, ChannelsLastSamples) {
  Random random(53);
  for (const std::array<std::int64_t, 3>& shape : {std::array<std::int64_t, 3>{64, 7, 7},
                                                   {256, 7, 7},
                                                   {32, 14, 14},
                                                   {24, 8, 16},
                                                   {8, 8, 8},
                                                   {12, 8, 8},
                                                   {96, 4, 4},
                                                   {64, 2, 5},
                                                   {3, 16, 16}}) {
    for (const int group : {16, 64, 256, 24}) {
      SidedCase c(random, false);
      c.what.layout = samples_last(2, shape);
      c.spec.group = group;
      c.make_numbers(random, shape[1] * shape[2], true);
      std::vector<float> x = random_values(random, c.what.layout, false);
      if (group == 64) spoil(random, x);
      c.source = make_source(c.what, x);
      expect_like_reference(c, group == 16 ? element_size(c.what.type) : 0);
      if (HasFailure()) return;
    }
  }
}

TEST_F(TwoSidedCuda, DamagedHeadersStayInBounds) {
  Random random(54);
  for (int round = 0; round < rounds(60); ++round) {
    SidedCase c(random, false);
    c.what.layout = contiguous(3, {8, 3, 3});
    c.make_numbers(random, 9, true);
    c.source = make_source(c.what, random_values(random, c.what.layout, false));
    const auto reference = make_codec(c.spec, Engine::reference);
    const auto codec = cuda::make_device_codec(c.spec);
    const Bytes good = encode_any(*reference, c.what, c.source, c.key).bytes;
    const Description plain{.type = c.what.type, .layout = c.what.layout};
    Bytes damaged = good;
    for (int i = 0; i < 2; ++i) {
      damaged[draw(random, 0, 15)] = static_cast<std::byte>(random());
    }
    if (round % 3 == 0) damaged = with_value(damaged, 0, std::int64_t{1} << 62);
    if (round % 3 == 1)
      damaged = with_value(with_value(damaged, 0, std::int64_t{1}), 8, std::int64_t{72});
    device_decode(*codec, plain, damaged, Reads::values);
    device_decode(*codec, plain, damaged, Reads::sign);
  }
}

TEST_F(TwoSidedCuda, EmptyTensors) {
  const Description what{.type = ElementType::float16, .layout = contiguous(0, {1, 1, 9})};
  const auto codec = cuda::make_device_codec({.name = "two_sided"});
  ASSERT_TRUE(codec->accepts(what));
  const auto reference = make_codec({.name = "two_sided"}, Engine::reference);
  EXPECT_TRUE(device_encode(*codec, *reference, what, {}, {}).representable);
  EXPECT_TRUE(device_decode(*codec, what, {}, Reads::values).empty());
}

}  // namespace
}  // namespace cinch::codecs::test
