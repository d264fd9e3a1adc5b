// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/error_bounded/error_bounded_ratio.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

CodecSpec ratio(float bound, int refresh = 100) {
  return {.name = "error_bounded_ratio", .error_bound = bound, .refresh = refresh};
}

Description planes(std::int64_t count, std::array<std::int64_t, 3> extent,
                   ElementType type = ElementType::float32) {
  return {.type = type, .layout = contiguous(count, extent)};
}

/// The plan that encoded data were made with.
RatioPlan plan_of(const Description& what, const Bytes& bytes) {
  RatioHeader header;
  EXPECT_TRUE(header.read(bytes, what, RatioChunks(what.layout).count()));
  return header.plan;
}

/// Bits an element of the most frequent symbols' best code: their entropy.
double entropy(const std::vector<std::int64_t>& symbols) {
  std::map<std::int64_t, double> counts;
  for (const std::int64_t s : symbols) ++counts[s];
  double bits = 0.0;
  for (const auto& [symbol, count] : counts) {
    bits -= count * std::log2(count / static_cast<double>(symbols.size()));
  }
  return bits / static_cast<double>(symbols.size());
}

std::int64_t code_of(float x, float bound) {
  const Lattice lattice = error_bound_of(ElementType::float32, bound).coarse;
  return static_cast<std::int64_t>(std::copysign(code_magnitude(std::fabs(x), lattice), x));
}

std::vector<float> normal_values(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

/// Planes of a smooth surface with a little noise.
std::vector<float> smooth_values(std::int64_t count, std::int64_t height, std::int64_t width,
                                 float noise) {
  std::vector<float> x = normal_values(std::size_t(count * height * width), 6);
  for (std::int64_t p = 0; p < count; ++p) {
    for (std::int64_t h = 0; h < height; ++h) {
      for (std::int64_t w = 0; w < width; ++w) {
        float& v = x[(p * height + h) * width + w];
        v = noise * v +
            3.0F * std::sin(0.11F * float(h) + float(p) + 0.1F) * std::cos(0.07F * float(w));
      }
    }
  }
  return x;
}

TEST(Buckets, CoverNumbersInOrder) {
  int last = 0;
  for (std::uint32_t n = 0; n < 1U << 26; n += n < 1U << 14 ? 1 : 997) {
    const int bucket = bucket_of(n);
    ASSERT_LT(bucket, kBuckets);
    ASSERT_GE(bucket, last);
    last = bucket;
    ASSERT_TRUE(n >= 16 || bucket == static_cast<int>(n));
    ASSERT_GE(n, bucket_base(bucket));
    ASSERT_LT(n - bucket_base(bucket), 1U << bucket_bits(bucket));
    // The further bits are the number's lowest.
    ASSERT_EQ(bucket_base(bucket) & ((1U << bucket_bits(bucket)) - 1), 0U);
  }
  EXPECT_EQ(bucket_of((1U << 26) - 1), kBuckets - 1);
  EXPECT_EQ(value_symbol(0), 0);
  EXPECT_EQ(value_symbol(1), 1);
  EXPECT_EQ(value_symbol(-1), 2);
  EXPECT_EQ(value_symbol(-((1 << 26) - 1)), kEscapeRaw - 1);
}

TEST(RatioChunks, CoverEveryElementOnce) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    PlaneLayout layout = random_layout(random);
    if (round % 3 == 0) layout = contiguous(draw(random, 0, 5), {1, 1, draw(random, 1, 40000)});
    if (round % 3 == 1) {
      layout = contiguous(draw(random, 1, 3),
                          {draw(random, 1, 9), draw(random, 1, 120), draw(random, 1, 120)});
    }
    const RatioChunks chunks(layout);
    std::int64_t next = 0;
    for (std::int64_t c = 0; c < chunks.count(); ++c) {
      const RatioChunks::Chunk chunk = chunks[c];
      ASSERT_EQ(chunk.begin, next);
      ASSERT_GT(chunk.count, 0);
      ASSERT_LE(chunk.count, kChunkElements);
      ASSERT_EQ(chunk.extent[0] * chunk.extent[1] * chunk.extent[2] * chunk.extent[3], chunk.count);
      next += chunk.count;
      // Whole lines of whole boxes, inside out, up to the axis that is cut.
      const std::array<std::int64_t, 4> whole = {layout.planes(), layout.extent[0],
                                                 layout.extent[1], layout.extent[2]};
      int axis = 3;
      while (axis > 0 && chunk.extent[axis] == whole[axis]) --axis;
      for (int outer = 0; outer < axis; ++outer) ASSERT_EQ(chunk.extent[outer], 1);
    }
    ASSERT_EQ(next, layout.elements());
    for (std::int64_t p = 0; p <= layout.planes();
         p += std::max<std::int64_t>(1, chunks.planes())) {
      const std::int64_t c = chunks.of_plane(p);
      ASSERT_EQ(c < chunks.count() ? chunks[c].begin : next, p * layout.plane_size());
    }
  }
}

TEST(ErrorBoundedRatio, IsNearTheEntropyOfTheCodes) {
  const Description what = planes(24, {1, 1, 8192});
  const auto n = static_cast<double>(what.layout.elements());
  std::mt19937 random(3);
  for (const float bound : {0.3F, 0.1F, 0.01F, 1e-4F}) {
    for (const double zeros : {0.0, 0.5, 0.97}) {
      std::vector<float> x = normal_values(std::size_t(n), 1);
      for (float& v : x) {
        if (random() % 1000 < 1000 * zeros) v = 0.0F;
      }
      // Of whether there is a zero, and otherwise of a normal number in bins much narrower than 1.
      const double others = 1.0 - zeros;
      double expected = others * (std::log2(std::sqrt(2 * M_PI * M_E)) - std::log2(2 * bound));
      if (zeros > 0) expected -= zeros * std::log2(zeros) + others * std::log2(others);
      const Bytes bytes = encode(*make_codec(ratio(bound)), what, make_source(what, x));
      const double bits = 8.0 * double(bytes.size()) / n;
      EXPECT_LE(bits, 1.1 * expected) << bound << " " << zeros;
      EXPECT_GE(bits, 0.97 * expected) << bound << " " << zeros;
    }
  }
}

TEST(ErrorBoundedRatio, IsNearTheEntropyOfWhatPredictionLeaves) {
  const Description what = planes(64, {1, 64, 64});
  const std::vector<float> x = smooth_values(64, 64, 64, 0.02F);
  std::vector<std::int64_t> left;
  const auto code = [&](std::int64_t p, std::int64_t h, std::int64_t w) {
    if (h < 0 || w < 0) return std::int64_t{0};
    const std::int64_t c = code_of(x[(p * 64 + h) * 64 + w], 0.01F);
    return c > 0 ? c - 1 : c;
  };
  for (std::int64_t p = 0; p < 64; ++p) {
    for (std::int64_t h = 0; h < 64; ++h) {
      for (std::int64_t w = 0; w < 64; ++w) {
        left.push_back(code(p, h, w) - code(p, h - 1, w) - code(p, h, w - 1) +
                       code(p, h - 1, w - 1));
      }
    }
  }
  const Bytes bytes = encode(*make_codec(ratio(0.01F)), what, make_source(what, x));
  EXPECT_EQ(plan_of(what, bytes).predictor, Predictor::lorenzo);
  const double bits = 8.0 * double(bytes.size()) / double(x.size());
  EXPECT_LE(bits, 1.1 * entropy(left));
  EXPECT_GE(bits, 0.99 * entropy(left));
}

TEST(ErrorBoundedRatio, PlansSuitTheData) {
  const auto plan_for = [](const Description& what, const std::vector<float>& x) {
    return plan_of(what, encode(*make_codec(ratio(0.01F)), what, make_source(what, x)));
  };
  const Description images = planes(40, {1, 50, 60});
  const Description rows = planes(500, {1, 1, 256});

  RatioPlan plan = plan_for(images, smooth_values(40, 50, 60, 0.0F));
  EXPECT_EQ(plan.predictor, Predictor::lorenzo);
  EXPECT_TRUE(plan.closes_gap);

  plan = plan_for(rows, normal_values(500 * 256, 2));
  EXPECT_EQ(plan.predictor, Predictor::none);
  EXPECT_FALSE(plan.runs);
  EXPECT_TRUE(plan.closes_gap);

  std::vector<float> drifting = normal_values(500 * 256, 2);
  for (std::size_t k = 256; k < drifting.size(); ++k) {
    drifting[k] = drifting[k - 256] + 0.03F * drifting[k];
  }
  EXPECT_EQ(plan_for(rows, drifting).predictor, Predictor::plane);

  std::vector<float> sparse = normal_values(500 * 256, 2);
  std::mt19937 random(5);
  for (float& v : sparse) v = random() % 10 != 0 ? 0.0F : v;
  plan = plan_for(rows, sparse);
  EXPECT_TRUE(plan.runs);
  EXPECT_FALSE(plan.closes_gap);
}

TEST(ErrorBoundedRatio, ThreeDimensionsArePredictedAsWell) {
  const Description what = planes(3, {16, 16, 16});
  std::vector<float> x(what.layout.elements());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto d = float(k / 256 % 16), h = float(k / 16 % 16), w = float(k % 16);
    x[k] = d * h * 0.5F + h * w * 0.25F + d * w * 0.125F;
  }
  const auto codec = make_codec(ratio(0.0625F));
  const Bytes bytes = encode(*codec, what, make_source(what, x));
  EXPECT_EQ(plan_of(what, bytes).predictor, Predictor::lorenzo);
  EXPECT_LT(bytes.size(), x.size() / 2);
  const std::vector<float> y = values_of(what, decode(*codec, what, bytes));
  for (std::size_t k = 0; k < x.size(); ++k) ASSERT_LE(std::fabs(x[k] - y[k]), 0.0625F);
}

TEST(ErrorBoundedRatio, EscapesAreLossless) {
  std::vector<float> x = normal_values(20000, 4);
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    // Payloads, signs and quietness of NaNs; infinities; numbers without a code.
    constexpr std::array<std::uint32_t, 6> kPatterns = {0x7F800001U, 0xFFC12345U, 0x7FFFFFFFU,
                                                        0x7F800000U, 0xFF800000U, 0x7F000000U};
    x[random() % x.size()] = float_of_bits(kPatterns[i % 6]);
  }
  const Description what = planes(20, {1, 10, 100});
  Bytes source(4 * x.size());
  std::memcpy(source.data(), x.data(), source.size());
  for (const bool zeros : {false, true}) {
    if (zeros) std::memset(source.data() + 4000, 0, 400);
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(ratio(0.01F), engine);
      const Bytes decoded = decode(*codec, what, encode(*codec, what, source));
      for (std::size_t k = 0; k < x.size(); ++k) {
        const auto before = static_cast<std::uint32_t>(reference::load_bits(source.data(), k, 4));
        const auto after = static_cast<std::uint32_t>(reference::load_bits(decoded.data(), k, 4));
        if ((before & 0x7FFFFFFFU) >= 0x7F000000U || before == 0) {
          ASSERT_EQ(after, before) << k;
        }
      }
    }
  }
}

TEST(ErrorBoundedRatio, ChunksThatDoNotShrinkAreHeldAsTheyAre) {
  std::mt19937 random(4);
  for (const ElementType type : kFloats) {
    const Description what = planes(3, {1, 77, 111}, type);
    Bytes source(source_bytes(what));
    for (std::byte& b : source) b = static_cast<std::byte>(random());
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(ratio(0x1p-149F), engine);
      const Bytes bytes = encode(*codec, what, source);
      EXPECT_LE(bytes.size(), codec->encoded_bytes(what));
      EXPECT_EQ(decode(*codec, what, bytes), source);
    }
  }
}

TEST(ErrorBoundedRatio, BooksAreKeptAndRefreshed) {
  const Description what = planes(30, {1, 40, 40});
  const std::vector<float> narrow = normal_values(30 * 1600, 1);
  std::vector<float> other = normal_values(30 * 1600, 2);
  for (float& v : other) v *= 0.5F;
  const Bytes a = make_source(what, narrow);
  const Bytes b = make_source(what, other);
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(ratio(0.01F, 3), engine);
    const auto fresh = [&](const Bytes& source) {
      return encode(*make_codec(ratio(0.01F, 3), engine), what, source);
    };
    const auto book = [&](const Bytes& bytes) { return plan_of(what, bytes).value_lengths; };
    const Bytes first = encode(*codec, what, a);
    EXPECT_EQ(first, fresh(a));
    EXPECT_EQ(encode(*codec, what, a), first);
    const Bytes third = encode(*codec, what, b);
    EXPECT_EQ(book(third), book(first));
    EXPECT_GT(third.size(), fresh(b).size());
    EXPECT_EQ(encode(*codec, what, b), fresh(b));  // a new book
    // Empty sources don't count.
    EXPECT_FALSE(encode(*codec, planes(0, {1, 4, 4}), {}).empty());
    EXPECT_EQ(encode(*codec, what, b), fresh(b));
    EXPECT_EQ(encode(*codec, what, b), fresh(b));
    EXPECT_EQ(encode(*codec, what, a), fresh(a));
  }
}

TEST(ErrorBoundedRatio, OldBooksHoldAnythingButNotForLong) {
  const Description what = planes(30, {1, 40, 40});
  std::vector<float> zeros(30 * 1600, 0.0F);
  zeros[7] = 1.0F;
  std::vector<float> wild = normal_values(30 * 1600, 3);
  for (std::size_t k = 0; k < wild.size(); ++k) wild[k] *= std::exp2(float(k % 23));
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(ratio(0.01F), engine);
    const Bytes first = encode(*codec, what, make_source(what, zeros));
    const Bytes second = encode(*codec, what, make_source(what, wild));
    EXPECT_EQ(plan_of(what, second).value_lengths, plan_of(what, first).value_lengths);
    const std::vector<float> y = values_of(what, decode(*codec, what, second));
    for (std::size_t k = 0; k < wild.size(); ++k) ASSERT_LE(std::fabs(wild[k] - y[k]), 0.01F);
    const Bytes third = encode(*codec, what, make_source(what, wild));
    EXPECT_LT(third.size(), second.size());
    EXPECT_EQ(third, encode(*make_codec(ratio(0.01F), engine), what, make_source(what, wild)));
  }
}

TEST(ErrorBoundedRatio, EnginesAgreeOverTheSameCalls) {
  Random random(6);
  const auto reference = make_codec(ratio(0.02F, 4), Engine::reference);
  const auto cpu = make_codec(ratio(0.02F, 4), Engine::cpu);
  for (int call = 0; call < 30; ++call) {
    const Description what{.type = kFloats[draw(random, 0, 2)], .layout = random_layout(random)};
    const Bytes source = make_source(what, random_values(random, what.layout, false));
    ASSERT_EQ(encode(*reference, what, source), encode(*cpu, what, source)) << call;
  }
}

TEST(ErrorBoundedRatio, ThreadsMayShareAnObject) {
  const Description what = planes(16, {1, 40, 40});
  const auto codec = make_codec(ratio(0.01F, 2));
  std::vector<std::thread> threads;
  std::array<bool, 3> good = {};
  for (unsigned t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      good[t] = true;
      for (int round = 0; round < 20; ++round) {
        std::vector<float> x = normal_values(16 * 1600, t + 1);
        for (float& v : x) v *= std::exp2(float(round % 5));
        const std::vector<float> y =
            values_of(what, decode(*codec, what, encode(*codec, what, make_source(what, x))));
        for (std::size_t k = 0; k < x.size(); ++k) good[t] &= std::fabs(x[k] - y[k]) <= 0.01F;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, testing::Each(true));
}

/// Encoded data with runs or without, escapes, and a chunk of own bytes.
struct Sample {
  Description what;
  Bytes bytes;

  Sample(ElementType type, bool sparse) {
    what = {.type = type, .layout = channels_last(3, 4, {1, 60, 61})};
    std::vector<float> x = normal_values(what.layout.elements(), 2);
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (sparse && k % 17 != 0) x[k] = 0.0F;
      if (k % 500 == 3) x[k] = std::numeric_limits<float>::infinity();
      if (k < 3660) x[k] = 1e30F * float(k);
    }
    bytes = encode(*make_codec(ratio(0.01F)), what, make_source(what, x));
    EXPECT_EQ(plan_of(what, bytes).runs, sparse);
  }
};

TEST(ErrorBoundedRatio, DamagedHeadersAreRefused) {
  const Sample good(ElementType::float32, true);
  const RatioChunks chunks(good.what.layout);
  RatioHeader header;
  ASSERT_TRUE(header.read(good.bytes, good.what, chunks.count()));
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec(ratio(0.01F), engine);
    const auto refused = [&](std::int64_t offset, auto value) {
      Bytes damaged = good.bytes;
      std::memcpy(damaged.data() + offset, &value, sizeof value);
      return decode(*codec, good.what, damaged).empty();
    };
    EXPECT_FALSE(refused(0, kRatioVersion));
    EXPECT_TRUE(refused(0, std::uint8_t{2}));
    EXPECT_TRUE(refused(1, std::uint8_t{1}));
    EXPECT_TRUE(refused(2, std::uint8_t{3}));
    EXPECT_TRUE(refused(3, std::uint8_t{4}));
    EXPECT_TRUE(refused(3, std::uint8_t{0}));  // a book more than there should be
    EXPECT_TRUE(refused(4, std::numeric_limits<float>::quiet_NaN()));
    EXPECT_TRUE(refused(8, good.what.layout.elements() - 1));
    EXPECT_TRUE(refused(16, std::int64_t(good.bytes.size()) + 1));
    EXPECT_TRUE(refused(16, std::int64_t{-1}));
    EXPECT_TRUE(refused(24, std::uint32_t{0}));
    EXPECT_TRUE(refused(24, ~std::uint32_t{0}));
    EXPECT_TRUE(refused(28, std::uint32_t{1}));
    EXPECT_TRUE(refused(RatioHeader::kBooks, std::uint8_t{0xFF}));
    for (const std::uint64_t offset :
         {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t(good.bytes.size())}) {
      EXPECT_TRUE(refused(header.index, offset));
      EXPECT_TRUE(refused(header.index + 8 * (chunks.count() - 1), offset));
    }
    // Sizes of the second chunk's streams; the first has own bytes.
    std::uint64_t begin;
    std::memcpy(&begin, good.bytes.data() + header.index + 8, 8);
    const auto streams = std::int64_t(header.index + 8 * chunks.count() + begin);
    EXPECT_TRUE(refused(streams, std::uint16_t{0xFFFF}));
    EXPECT_TRUE(refused(streams, std::uint16_t{0}));
  }
}

TEST(ErrorBoundedRatio, DamagedBytesStayInBounds) {
  std::mt19937 random(3);
  for (const ElementType type : kFloats) {
    for (const bool sparse : {false, true}) {
      const Sample good(type, sparse);
      int decoded = 0;
      for (int round = 0; round < 50; ++round) {
        Bytes damaged = good.bytes;
        for (int i = 0; i < 3; ++i) {
          // Half of them in what directs the rest.
          const std::size_t range = i % 2 == 0 ? damaged.size() : 400;
          damaged[random() % range] = static_cast<std::byte>(random());
        }
        if (round % 3 == 0) {  // one chunk, all noise
          std::generate(damaged.end() - 9000, damaged.end(),
                        [&] { return static_cast<std::byte>(random()); });
        }
        if (round % 7 == 0) damaged.resize(random() % damaged.size());
        damaged.shrink_to_fit();
        for (const Engine engine : {Engine::reference, Engine::cpu}) {
          const auto codec = make_codec(ratio(0.01F), engine);
          decoded += !decode(*codec, good.what, damaged).empty();
          decoded += !decode(*codec, good.what, damaged, Reads::sign).empty();
        }
      }
      EXPECT_GT(decoded, 0);
    }
  }
}

}  // namespace
}  // namespace cinch::codecs::test
