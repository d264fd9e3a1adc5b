// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/lossless/exponent_pack.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

constexpr std::array kPackTypes = {ElementType::float32, ElementType::bfloat16,
                                   ElementType::float16, ElementType::float64};
const CodecSpec kSpec = {.name = "exponent_pack"};

class ExponentPackCuda : public DeviceTest {};

TEST_F(ExponentPackCuda, WritesTheReferencesBytes) {
  Random random(41);
  for (int round = 0; round < rounds(20) && !testing::Test::HasFailure(); ++round) {
    const Description what{.type = kPackTypes[round % 4], .layout = random_layout(random)};
    SCOPED_TRACE(describe(what, kSpec));
    expect_device_like_reference(kSpec, what, mixed_floats(random, what, 2500), {}, false);
  }
}

TEST_F(ExponentPackCuda, BlocksThatEndAnywhere) {
  Random random(42);
  for (const std::int64_t n : {1, 7, 31, 33, 64, 65, 4095, 4096, 4097}) {
    for (const ElementType type : kPackTypes) {
      if (testing::Test::HasFailure()) return;
      const Description what{.type = type, .layout = PlaneLayout::rows(n, n)};
      SCOPED_TRACE(describe(what, kSpec));
      expect_device_like_reference(kSpec, what, mixed_floats(random, what, 1 << 20), {}, false);
    }
  }
}

TEST_F(ExponentPackCuda, HalvedBlocksBesideOthers) {
  for (const ElementType type : {ElementType::float32, ElementType::float64}) {
    for (const bool relu : {false, true}) {
      const std::int64_t n = 3 * kPackElements + 77;
      const Description what{.type = type, .layout = PlaneLayout::rows(n, n)};
      const std::size_t size = element_size(type);
      Bytes source = normal_floats(flat(2 * n, ElementType::float32), relu);
      source.resize(size * static_cast<std::size_t>(n));  // a float64's upper half is a float32
      clear_lower_halves(source, size);
      source[size * kPackElements] = std::byte{1};
      expect_device_like_reference(kSpec, what, source, {}, false);
    }
  }
}

TEST_F(ExponentPackCuda, EveryPatternOfSixteenBits) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    const Description what{.type = type, .layout = contiguous(1, {1, 1, 65536})};
    Bytes source(2 * 65536);
    for (std::uint32_t k = 0; k < 65536; ++k) std::memcpy(source.data() + 2 * k, &k, 2);
    expect_device_like_reference(kSpec, what, source, {}, false);
  }
}

/// The source may lie anywhere that its elements may.
TEST_F(ExponentPackCuda, SourcesThatAreAlignedToTheirElementsOnly) {
  Random random(43);
  for (const ElementType type : kPackTypes) {
    const std::size_t size = element_size(type);
    const Description what{.type = type, .layout = PlaneLayout::rows(5000, 5000)};
    const Bytes source = mixed_floats(random, what, 1 << 20);
    const auto reference = make_codec(kSpec, Engine::reference);
    const auto device = cuda::make_device_codec(kSpec);
    Bytes shifted(source.size() + size);
    std::ranges::copy(source, shifted.begin() + static_cast<std::ptrdiff_t>(size));
    DeviceBytes from(shifted);
    DeviceBytes out(reference->encoded_bytes(what));
    DeviceBytes result(sizeof(cuda::Result), 0);
    DeviceBytes scratch(device->scratch_bytes(what));
    ASSERT_TRUE(device->encode(what, from.data() + size, out.data(),
                               reinterpret_cast<cuda::Result*>(result.data()), scratch.data(), {},
                               nullptr));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const Bytes expected = encode(*reference, what, source);
    EXPECT_EQ(out.host(expected.size()), expected);
    DeviceBytes to(shifted.size());
    ASSERT_TRUE(device->decode(what, {out.data(), expected.size()}, to.data() + size, Reads::values,
                               scratch.data(), nullptr));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const Bytes target = to.host(shifted.size());
    EXPECT_TRUE(std::equal(source.begin(), source.end(), target.begin() + std::ptrdiff_t(size)));
  }
}

/// Whatever encoded bytes are damaged to, nothing is read or written out of bounds
/// (AddressSanitizer sees that on the host), and what is restored of good blocks is right.
TEST_F(ExponentPackCuda, DamagedBytesStayInBounds) {
  Random random(44);
  const auto device = cuda::make_device_codec(kSpec);
  for (int round = 0; round < rounds(48); ++round) {
    const ElementType type = kPackTypes[round % 4];
    const std::int64_t n = kPackElements + draw(random, 1, 700);
    const Description what{.type = type, .layout = PlaneLayout::rows(n, n)};
    Bytes bytes = encode(*make_codec(kSpec), what, mixed_floats(random, what, 1 << 20));
    const PackLayout at(n);
    // Behind the header: the index, the blocks' descriptions, or the second one's bytes.
    const std::int64_t from = round % 3 == 0   ? PackLayout::kIndex
                              : round % 3 == 1 ? at.blocks
                                               : at.payload;
    const std::int64_t to = round % 3 == 2 ? std::ssize(bytes) - 1 : at.payload - 1;
    for (int damage = 0; damage < 3; ++damage) {
      bytes[static_cast<std::size_t>(draw(random, from, to))] = static_cast<std::byte>(random());
    }
    if (round % 7 == 0)
      bytes.resize(static_cast<std::size_t>(draw(random, at.payload, std::ssize(bytes))));
    bytes.shrink_to_fit();
    const Bytes restored = device_decode(*device, what, bytes, Reads::values);
    ASSERT_EQ(restored.size(), source_bytes(what));
  }
}

TEST_F(ExponentPackCuda, EmptyTensors) {
  const Description what{.type = ElementType::float64, .layout = contiguous(0, {1, 2, 2})};
  expect_device_like_reference(kSpec, what, {}, {}, false);
}

}  // namespace
}  // namespace cinch::codecs::test
