// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "codecs/cuda/codec.h"
#include "codecs/cuda/library/load.h"
#include "codecs/cuda/runtime.h"
#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

/// Runs device codecs, on a GPU or on the host's stand-in for one, and compares with the reference.
namespace cinch::codecs::test {

/// Skips on machines without a GPU, and says so.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "no CUDA device here";
    }
#ifdef CINCH_CUDA_ON_HOST
    cuda_on_host::set_schedule(7);  // threads out of order: a missing barrier shows
#endif
  }
};

/// Device memory of exactly so many bytes, on the host under AddressSanitizer too.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t size, int fill = 0x5A) : size_(size) {
    EXPECT_EQ(cudaMalloc(&memory_, size == 0 ? 1 : size), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, fill, size), cudaSuccess);
  }
  explicit DeviceBytes(const Bytes& bytes) : DeviceBytes(bytes.size()) {
    EXPECT_EQ(cudaMemcpy(memory_, bytes.data(), size_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(memory_); }

  std::byte* data() { return static_cast<std::byte*>(memory_); }

  Bytes host(std::size_t size) {
    Bytes bytes(size);
    EXPECT_EQ(cudaMemcpy(bytes.data(), memory_, size, cudaMemcpyDeviceToHost), cudaSuccess);
    return bytes;
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_;
};

/// Layouts whose channels lie side by side: planes are channels, or samples.
inline std::vector<PlaneLayout> side_by_side_layouts() {
  constexpr std::array<std::array<std::int64_t, 3>, 9> kSizes = {{{64, 7, 7},
                                                                  {520, 7, 7},
                                                                  {80, 14, 14},
                                                                  {24, 56, 56},
                                                                  {136, 16, 24},
                                                                  {20, 9, 13},
                                                                  {16, 49, 51},
                                                                  {5, 8, 8},
                                                                  {2, 3, 37}}};
  std::vector<PlaneLayout> layouts;
  for (const auto& [channels, height, width] : kSizes) {
    layouts.push_back(channels_last(3, channels, {1, height, width}));
    layouts.push_back(samples_last(3, {channels, height, width}));
  }
  layouts.push_back(channels_last(2, 16, {3, 5, 10}));
  // Of a tensor with more channels and of one sample, whose plane is the outer one.
  PlaneLayout part = samples_last(2, {32, 10, 12});
  part.stride = {1, 12 * 40, 40};
  part.inner_stride = 120 * 40;
  layouts.push_back(part);
  PlaneLayout one = samples_last(1, {32, 10, 11});
  std::swap(one.inner, one.outer);
  std::swap(one.inner_stride, one.outer_stride);
  layouts.push_back(one);
  return layouts;
}

struct DeviceEncoded {
  bool representable;
  Bytes bytes;
};

inline std::vector<float> normal_values(Random& random, std::int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// Numbers as they lie in memory.
inline Bytes bytes_of(const std::vector<float>& numbers) {
  Bytes bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// @param offset bytes by which the source is moved from an aligned address
/// @param stream of the encode
inline DeviceEncoded device_encode(const cuda::DeviceCodec& codec, const Codec& host,
                                   const Description& what, const Bytes& source, RandomKey key,
                                   std::size_t offset = 0, cuda::Stream stream = nullptr) {
  Bytes moved(offset, std::byte{0xEE});
  moved.insert(moved.end(), source.begin(), source.end());
  DeviceBytes from(moved);
  DeviceBytes out(host.encoded_bytes(what));
  DeviceBytes result(sizeof(cuda::Result), 0);
  DeviceBytes scratch(codec.scratch_bytes(what));
  EXPECT_TRUE(codec.encode(what, from.data() + offset, out.data(),
                           reinterpret_cast<cuda::Result*>(result.data()), scratch.data(), key,
                           stream));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  cuda::Result r;
  std::memcpy(&r, result.host(sizeof r).data(), sizeof r);
  EXPECT_LE(r.bytes, host.encoded_bytes(what));
  return {r.not_representable == 0, out.host(r.bytes)};
}

/// @param offset bytes by which the target is moved from an aligned address
/// @param stream of the decode
inline Bytes device_decode(const cuda::DeviceCodec& codec, const Description& what, const Bytes& in,
                           Reads reads, std::size_t offset = 0, cuda::Stream stream = nullptr) {
  DeviceBytes encoded(in);
  DeviceBytes target(offset + source_bytes(what), 0xA5);
  DeviceBytes scratch(codec.scratch_bytes(what));
  EXPECT_TRUE(codec.decode(what, {encoded.data(), in.size()}, target.data() + offset, reads,
                           scratch.data(), stream));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  Bytes bytes = target.host(offset + source_bytes(what));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  return bytes;
}

/// Compares one encode and its decodes with the reference engine's. Sources that `Encoded` calls
/// not representable are compared too where the bytes are defined (quantizing codecs).
/// @param offset bytes by which source and target are moved from aligned addresses
/// @param stream of the encodes and decodes
inline void expect_device_like_reference(const CodecSpec& spec, const Description& what,
                                         const Bytes& source, RandomKey key, bool poisons,
                                         std::size_t offset = 0, cuda::Stream stream = nullptr) {
  const auto reference = make_codec(spec, Engine::reference);
  const auto device = cuda::make_device_codec(spec);
  ASSERT_NE(reference, nullptr);
  ASSERT_NE(device, nullptr);
  ASSERT_TRUE(device->accepts(what));
#ifdef CINCH_CUDA_ON_HOST
  cuda_on_host::kernels() = {};
#endif
  ASSERT_TRUE(cuda::load(*device, what));
  Bytes expected(reference->encoded_bytes(what), std::byte{0x5A});
  const Encoded encoded = reference->encode(what, source.data(), expected, key, serial_for);
  const DeviceEncoded actual =
      device_encode(*device, *reference, what, source, key, offset, stream);
  ASSERT_EQ(actual.representable, encoded.representable);
  ASSERT_FALSE(codec_traits(spec.name)->sized_by_data && actual.bytes.empty());
  if (!encoded.representable && !poisons) return;
  expected.resize(encoded.bytes);
  ASSERT_EQ(actual.bytes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(int(actual.bytes[i]), int(expected[i])) << "byte " << i << " of " << expected.size();
  }
  for (const Reads reads : {Reads::sign, Reads::interval, Reads::values}) {
    if (!serves(reference->restores(), reads)) continue;
    if (reads == Reads::interval && !is_exact(*reference)) continue;
    const Bytes decoded = decode(*reference, what, expected, reads);
    if (decoded.empty() && source_bytes(what) != 0) continue;
    ASSERT_EQ(device_decode(*device, what, expected, reads, offset, stream), decoded) << int(reads);
  }
#ifdef CINCH_CUDA_ON_HOST
  const auto& kernels = cuda_on_host::kernels();
  EXPECT_TRUE(offset % 16 != 0 || std::ranges::includes(kernels.loaded, kernels.launched))
      << "a kernel is loaded when it is launched";
#endif
}

}  // namespace cinch::codecs::test
