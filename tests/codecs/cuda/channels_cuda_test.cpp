// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "codecs/cuda/library/own_streams.h"
#include "codecs/cuda/norms/channels.h"
#include "tests/codecs/cuda/device_support.h"

namespace cinch::codecs::test {
namespace {

class ChannelsCuda : public DeviceTest {};

enum class Relu : std::uint8_t { none, of_values, by_signs };

/// What follows the norm, and which arrays there are.
struct Steps {
  bool weighted = true, biased = true, added = false;
  Relu relu = Relu::none;
};

/// A tensor with what it is normalized by.
struct ChannelCase {
  ChannelOrder order;
  std::vector<float> mean, rstd, weight, bias, x, added;
  Bytes signs;

  ChannelCase(Random& random, std::int64_t outer, std::int64_t channels, std::int64_t inner)
      : order{outer, channels, inner} {
    const auto draw = [&](std::int64_t count) { return normal_values(random, count); };
    mean = draw(channels);
    rstd = draw(channels);
    weight = draw(channels);
    bias = draw(channels);
    x = draw(elements());
    added = draw(elements());
    signs.resize(static_cast<std::size_t>(elements() + 7) / 8);
    for (std::byte& each : signs) each = static_cast<std::byte>(random());
  }

  std::int64_t elements() const { return order.outer * order.channels * order.inner; }

  Description described(ElementType type) const {
    return {.type = type, .layout = PlaneLayout::rows(elements(), elements())};
  }

  std::vector<float> expected(ElementType type, const Steps& steps) const {
    const Description what = described(type);
    const auto rounded = [&](const std::vector<float>& of) {
      return values_of(what, make_source(what, of));
    };
    const std::vector<float> from = rounded(x);
    const std::vector<float> other = rounded(added);
    std::vector<float> y(from.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto c =
          i / static_cast<std::size_t>(order.inner) % static_cast<std::size_t>(order.channels);
      const float w = steps.weighted ? weight[c] : 1.0F;
      y[i] = std::fma(w * (from[i] - mean[c]), rstd[c], steps.biased ? bias[c] : 0.0F);
    }
    if (steps.added) {
      y = rounded(y);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += other[i];
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool kept = steps.relu == Relu::by_signs
                            ? (static_cast<unsigned>(signs[i / 8]) >> (i % 8) & 1U) != 0
                            : steps.relu == Relu::none || y[i] > 0;
      if (!kept) y[i] = 0;
    }
    return y;
  }

  /// @param offset Where the elements begin in memory
  void expect_like_host(ElementType type, const Steps& steps, std::size_t offset = 0,
                        cuda::Stream stream = nullptr) const {
    Bytes moved(offset, std::byte{0xEE});
    const Bytes source = make_source(described(type), x);
    moved.insert(moved.end(), source.begin(), source.end());
    DeviceBytes in(moved);
    DeviceBytes other(make_source(described(type), added));
    DeviceBytes means(bytes_of(mean)), rstds(bytes_of(rstd));
    DeviceBytes weights(bytes_of(weight)), biases(bytes_of(bias));
    DeviceBytes mask(signs);
    const std::size_t n = x.size() * element_size(type);
    DeviceBytes out(n);
    const auto floats = [](DeviceBytes& of) { return reinterpret_cast<const float*>(of.data()); };
    const cuda::ChannelNorm norm = {
        .order = order,
        .mean = floats(means),
        .rstd = floats(rstds),
        .weight = steps.weighted ? floats(weights) : nullptr,
        .bias = steps.biased ? floats(biases) : nullptr,
        .added = steps.added ? other.data() : nullptr,
        .relu = steps.relu != Relu::none,
        .signs = steps.relu == Relu::by_signs ? mask.data() : nullptr,
    };
    ASSERT_TRUE(cuda::normalize_channels(type, norm, in.data() + offset, out.data(), stream));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(out.host(n), make_source(described(type), expected(type, steps)))
        << int(type) << ": " << order.outer << " x " << order.channels << " x " << order.inner
        << ", ReLU " << int(steps.relu) << (steps.added ? ", sum" : "");
  }
};

TEST_F(ChannelsCuda, GivesPyTorchsBits) {
  Random random(83);
  // Channels last, by eights and not; planes, by eights and not; fewer than eight elements.
  const ChannelOrder orders[] = {{60, 32, 1}, {7, 13, 1}, {3, 5, 64}, {4, 3, 49}, {1, 1, 5}};
  for (const auto& [outer, channels, inner, tables] : orders) {
    const ChannelCase c(random, outer, channels, inner);
    for (const ElementType type : kFloats) {
      for (const Relu relu : {Relu::none, Relu::of_values, Relu::by_signs}) {
        c.expect_like_host(type, {.relu = relu});
        c.expect_like_host(type, {.added = true, .relu = relu}, element_size(type));
      }
      c.expect_like_host(type, {.weighted = false, .biased = false});
      c.expect_like_host(type, {.biased = false, .added = true});
    }
    if (HasFailure()) return;
  }
}

TEST_F(ChannelsCuda, NaNsStayButWhereTheyAreMaskedOut) {
  Random random(84);
  ChannelCase c(random, 1, 1, 16);
  const float nan = std::nanf("");
  c.x.assign(16, nan);
  c.signs = {std::byte{0xF0}, std::byte{0xFF}};
  const std::size_t n = 16 * sizeof(float);
  DeviceBytes in(bytes_of(c.x)), out(n), mask(c.signs), numbers(bytes_of({1.0F}));
  const auto* const one = reinterpret_cast<const float*>(numbers.data());
  for (const std::byte* signs :
       {static_cast<const std::byte*>(nullptr), static_cast<const std::byte*>(mask.data())}) {
    cuda::ChannelNorm norm = {.order = c.order, .mean = one, .rstd = one};
    norm.relu = true;
    norm.signs = signs;
    ASSERT_TRUE(
        cuda::normalize_channels(ElementType::float32, norm, in.data(), out.data(), nullptr));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::vector<float> y = values_of(c.described(ElementType::float32), out.host(n));
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(std::isnan(y[i]), signs == nullptr || i >= 4) << i;
    }
  }
}

TEST_F(ChannelsCuda, TakesNothingForNothing) {
  EXPECT_TRUE(cuda::normalize_channels(ElementType::float32, {}, nullptr, nullptr, nullptr));
}

#ifdef CINCH_CUDA_ON_HOST
TEST_F(ChannelsCuda, TakesFewBlocksInStreamsOfItsOwn) {
  auto* const stream = reinterpret_cast<cuda::Stream>(3300);  // NOLINT(performance-no-int-to-ptr)
  cuda::OwnStreams::add(stream, 1);
  Random random(85);
  cuda_on_host::kernels() = {};
  ChannelCase(random, 500, 72, 1).expect_like_host(ElementType::bfloat16, {}, 0, stream);
  EXPECT_LE(cuda_on_host::kernels().most_threads, 1024U);
}
#endif

}  // namespace
}  // namespace cinch::codecs::test
