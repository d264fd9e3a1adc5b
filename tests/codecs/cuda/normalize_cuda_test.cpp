// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "codecs/cuda/library/own_streams.h"
#include "codecs/cuda/norms/normalize.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class NormalizeCuda : public DeviceTest {};

/// Rows with what they are normalized by.
struct NormCase {
  std::int64_t rows, row;
  std::vector<float> mean, rstd, weight, bias;
  std::vector<float> x;

  NormCase(Random& random, std::int64_t r, std::int64_t c) : rows(r), row(c) {
    const auto draw = [&](std::int64_t count) { return normal_values(random, count); };
    mean = draw(rows);
    rstd = draw(rows);
    weight = draw(row);
    bias = draw(row);
    x = draw(rows * row);
  }

  Description described(ElementType type) const {
    return {.type = type, .layout = PlaneLayout::rows(rows * row, row)};
  }

  enum class Kind : std::uint8_t { layer_norm, rms_norm };

  void expect_like_host(ElementType from, ElementType to, bool weighted, bool biased,
                        std::size_t offset = 0, cuda::Stream stream = nullptr,
                        Kind kind = Kind::layer_norm) const {
    const bool centered = kind == Kind::layer_norm;
    const Bytes source = make_source(described(from), x);
    const std::vector<float> held = values_of(described(from), source);
    std::vector<float> expected(held.size());
    for (std::size_t i = 0; i < held.size(); ++i) {
      const std::size_t r = i / static_cast<std::size_t>(row);
      const std::size_t c = i % static_cast<std::size_t>(row);
      const float normal = (held[i] - (centered ? mean[r] : 0)) * rstd[r];
      const float w = weighted ? weight[c] : 1.0F;
      expected[i] = biased ? std::fma(normal, w, bias[c]) : normal * w;
    }
    Bytes moved(offset, std::byte{0xEE});
    moved.insert(moved.end(), source.begin(), source.end());
    DeviceBytes in(moved);
    DeviceBytes means(bytes_of(mean));
    DeviceBytes rstds(bytes_of(rstd));
    DeviceBytes weights(bytes_of(weight));
    DeviceBytes biases(bytes_of(bias));
    const std::size_t n = x.size() * element_size(to);
    DeviceBytes out(n);
    const auto floats = [](DeviceBytes& of) { return reinterpret_cast<const float*>(of.data()); };
    ASSERT_TRUE(cuda::normalize_rows(
        from, to,
        {rows, row, centered ? floats(means) : nullptr, floats(rstds),
         weighted ? floats(weights) : nullptr, biased ? floats(biases) : nullptr},
        in.data() + offset, out.data(), stream));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(out.host(n), make_source(described(to), expected))
        << "from " << int(from) << " to " << int(to) << ", " << rows << " rows of " << row;
  }
};

TEST_F(NormalizeCuda, GivesTheHostsBits) {
  Random random(81);
  for (const auto& [rows, row] : {std::pair{40, 768}, {3, 8}, {7, 13}, {300, 40}, {1, 1}}) {
    const NormCase c(random, rows, row);
    for (const ElementType from : kFloats) {
      for (const ElementType to : kFloats) {
        c.expect_like_host(from, to, true, true);
        c.expect_like_host(from, to, row % 16 == 0, row % 16 != 0, element_size(from));
        c.expect_like_host(from, to, false, false);
        c.expect_like_host(from, to, row % 16 == 0, false, 0, nullptr, NormCase::Kind::rms_norm);
      }
    }
    if (HasFailure()) return;
  }
}

TEST_F(NormalizeCuda, TakesNothingForNothing) {
  EXPECT_TRUE(cuda::normalize_rows(ElementType::float32, ElementType::float32, {}, nullptr, nullptr,
                                   nullptr));
}

#ifdef CINCH_CUDA_ON_HOST
TEST_F(NormalizeCuda, TakesFewBlocksInStreamsOfItsOwn) {
  auto* const stream = reinterpret_cast<cuda::Stream>(3100);  // NOLINT(performance-no-int-to-ptr)
  cuda::OwnStreams::add(stream, 1);
  Random random(82);
  cuda_on_host::kernels() = {};
  NormCase(random, 500, 72)
      .expect_like_host(ElementType::float32, ElementType::bfloat16, true, true, 0, stream);
  EXPECT_LE(cuda_on_host::kernels().most_threads, 1024U);
}
#endif

}  // namespace
}  // namespace cinch::codecs::test
