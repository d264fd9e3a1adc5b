// SPDX-License-Identifier: Apache-2.0
// Decoders given anything but what encode wrote. Buffers are exactly as large as they are said to
// be, so that AddressSanitizer sees a byte too many.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "codecs/formats/lossless/window_index.h"
#include "tests/codecs/support.h"

namespace cinch::codecs::test {
namespace {

std::vector<CodecSpec> all_specs() {
  std::vector<CodecSpec> specs;
  for (const std::string_view name : codec_names()) {
    if (codec_traits(name)->precision == Precision::bits) continue;
    specs.push_back({.name = std::string(name), .error_bound = 0.01F});
  }
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8}) {
    specs.push_back({.name = "blpa", .bits = bits, .with_sign = bits % 2 == 0});
    specs.push_back({.name = "division", .bits = bits, .with_sign = bits % 2 == 0});
    specs.push_back({.name = "division",
                     .bits = bits,
                     .residual_group = 8 * bits,
                     .subtractive_dither = bits % 2 == 0,
                     .with_sign = bits == 3});
    specs.push_back(
        {.name = "group_quant", .bits = bits, .group = 8 * bits, .with_sign = bits == 3});
    specs.push_back(
        {.name = "group_quant", .bits = bits, .subtractive_dither = true, .roots = bits % 2 != 0});
    if (bits == 1) continue;
    specs.push_back(
        {.name = "group_quant", .bits = bits, .subtractive_dither = true, .zero_code = true});
    specs.push_back({.name = "two_sided",
                     .bits = bits,
                     .group = 8 * bits,
                     .subtractive_dither = bits % 2 == 0});
  }
  for (const float bound : {0.5F, 0.05F, 1e-9F}) {
    specs.push_back({.name = "dct", .error_bound = bound});
    specs.push_back({.name = "fixed_point", .error_bound = bound});
  }
  for (const SignedValues values : {SignedValues::any, SignedValues::agreeing}) {
    for (const auto* name : {"blpa", "division", "group_quant"}) {
      specs.push_back({.name = name, .bits = 4, .with_sign = true, .signed_values = values});
    }
  }
  return specs;
}

Description described(const CodecSpec& spec, bool last_format) {
  const bool integers = spec.name == "window_index" || spec.name == "narrow";
  return {.type = integers ? ElementType::int64 : ElementType::float32,
          .layout = last_format ? channels_last(2, 3, {1, 5, 7}) : contiguous(7, {1, 5, 7}),
          .index_extent = {1, 10, 14}};
}

TEST(Hostile, RandomBytesStayInBounds) {
  std::mt19937 random(6);
  for (const CodecSpec& spec : all_specs()) {
    for (int round = 0; round < 60; ++round) {
      const Description what = described(spec, round % 2 != 0);
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        const auto codec = make_codec(spec, engine);
        Bytes in(round % 3 == 0 ? random() % codec->encoded_bytes(what)
                                : codec->encoded_bytes(what) - (round % 3 == 1 ? 0 : 1));
        for (std::byte& b : in) b = static_cast<std::byte>(random());
        Bytes target(source_bytes(what));
        for (const Reads reads : {Reads::nothing, Reads::sign, Reads::interval, Reads::values}) {
          codec->decode(what, in, target.data(), reads, serial_for);
        }
      }
    }
  }
}

TEST(Hostile, TruncatedBytesAreRefused) {
  for (const CodecSpec& spec : all_specs()) {
    if (spec.name == "window_index") continue;  // its size is in its header
    const Description what = described(spec, false);
    const Bytes source = make_source(what, std::vector<float>(what.layout.elements(), 1.0F));
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(spec, engine);
      Bytes bytes = encode(*codec, what, source);
      ASSERT_FALSE(bytes.empty());
      for (bytes.pop_back(); !bytes.empty(); bytes.pop_back()) {
        bytes.shrink_to_fit();
        ASSERT_TRUE(decode(*codec, what, bytes, codec->restores()).empty()) << spec.name;
      }
    }
  }
}

TEST(Hostile, BitsOfPlanesStayInBounds) {
  std::mt19937 random(8);
  const std::vector<std::uint8_t> bits = {1, 8, 3, 2, 5, 7, 4};
  for (const bool last_format : {false, true}) {
    Description what = described({.name = "group_quant"}, last_format);
    what.plane_bits = std::span(bits).first(what.layout.planes());
    const Bytes source = make_source(what, std::vector<float>(what.layout.elements(), 1.0F));
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec({.name = "group_quant", .group = 16}, engine);
      const Bytes good = encode(*codec, what, source);
      ASSERT_FALSE(good.empty());
      int decoded = 0;
      for (int round = 0; round < 500; ++round) {
        Bytes damaged = good;
        damaged[random() % bits.size()] = static_cast<std::byte>(random() % 10);
        if (round % 4 == 0) damaged.resize(random() % good.size());
        damaged.shrink_to_fit();
        decoded += decode(*codec, what, damaged).empty() ? 0 : 1;
      }
      EXPECT_GT(decoded, 0);
      EXPECT_LT(decoded, 400);
    }
  }
}

TEST(Hostile, WindowIndicesStayWithinThePlane) {
  const Description what = described({.name = "window_index"}, false);
  const std::int64_t n = what.layout.elements();
  std::mt19937 random(2);
  Bytes source(source_bytes(what));
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = k % 35;
    reference::store_bits(source.data(), k, 8, (i / 7 * 2 + random() % 2) * 14 + i % 7 * 2);
  }
  for (const Engine engine : {Engine::reference, Engine::cpu}) {
    const auto codec = make_codec({.name = "window_index"}, engine);
    const Bytes good = encode(*codec, what, source);
    ASSERT_FALSE(good.empty());
    int decoded = 0;
    for (int round = 0; round < 3000; ++round) {
      Bytes damaged = good;
      for (int i = 0; i < 3; ++i)
        damaged[random() % good.size()] = static_cast<std::byte>(random());
      if (round % 4 == 0) damaged.resize(random() % good.size());
      const Bytes target = decode(*codec, what, damaged);
      if (target.empty()) continue;
      ++decoded;
      for (std::int64_t k = 0; k < n; ++k) {
        ASSERT_LT(reference::load_bits(target.data(), k, 8), 140U);
      }
    }
    EXPECT_GT(decoded, 0);
  }
}

}  // namespace
}  // namespace cinch::codecs::test
