// SPDX-License-Identifier: Apache-2.0
// What codecs/codec.h promises of every codec.
#include <atomic>
#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/codecs/random_cases.h"

namespace cinch::codecs::test {
namespace {

CodecSpec spec_of(std::string_view name) {
  return {.name = std::string(name), .error_bound = 0.01F};
}

TEST(Contract, ApproximatedValuesServeAnIntervalWithBoundsAlone) {
  const Description what{.type = ElementType::float32, .layout = contiguous(2, {1, 9, 11})};
  Random random(3);
  const Bytes source = make_source(what, random_values(random, what.layout, true));
  int approximate = 0;
  for (const std::string_view name : codec_names()) {
    if (codec_traits(name)->fidelity == Fidelity::exact) continue;
    for (const auto& [with_sign, values] : {std::pair{false, SignedValues::any},
                                            {true, SignedValues::non_negative},
                                            {true, SignedValues::any},
                                            {true, SignedValues::agreeing}}) {
      CodecSpec spec = spec_of(name);
      spec.with_sign = with_sign;
      spec.signed_values = values;
      for (const Engine engine : {Engine::reference, Engine::cpu}) {
        const auto codec = make_codec(spec, engine);
        const Bytes bytes = encode(*codec, what, source);
        ASSERT_FALSE(bytes.empty()) << name;
        EXPECT_FALSE(decode(*codec, what, bytes).empty()) << name;
        EXPECT_TRUE(decode(*codec, what, bytes, Reads::interval).empty()) << name;
        EXPECT_TRUE(decode(*codec, what, bytes, Reads::nothing).empty()) << name;
        spec.with_bounds = true;
        const auto bounded = make_codec(spec, engine);
        const Bytes with_bounds = encode(*bounded, what, source);
        EXPECT_FALSE(decode(*bounded, what, with_bounds, Reads::interval).empty()) << name;
        spec.with_bounds = false;
      }
      ++approximate;
    }
  }
  EXPECT_EQ(approximate, 28);
}

TEST(Contract, TraitsAreTheCodecs) {
  for (const std::string_view name : codec_names()) {
    const auto codec = make_codec(spec_of(name));
    EXPECT_EQ(codec->restores(), codec_traits(name)->restores) << name;
    CodecSpec unbounded = spec_of(name);
    unbounded.error_bound = 0.0F;
    EXPECT_EQ(make_codec(unbounded) == nullptr,
              codec_traits(name)->precision == Precision::error_bound)
        << name;
    CodecSpec no_bits = spec_of(name);
    no_bits.bits = 0;
    EXPECT_EQ(make_codec(no_bits) == nullptr, codec_traits(name)->precision == Precision::bits)
        << name;
  }
}

TEST(Contract, TraitsNameTheFloatsThatCodecsTake) {
  for (const std::string_view name : codec_names()) {
    const auto traits = *codec_traits(name);
    if (traits.holds != Holds::floats) continue;
    for (const ElementType type : kTypes) {
      const Description what{.type = type, .layout = contiguous(2, {1, 9, 11})};
      for (const bool with_sign : {false, true}) {
        CodecSpec spec = spec_of(name);
        spec.with_sign = with_sign;
        for (const Engine engine : {Engine::reference, Engine::cpu}) {
          EXPECT_EQ(make_codec(spec, engine)->accepts(what), traits.takes(type)) << name;
        }
      }
    }
  }
}

TEST(Contract, EncodesIntoRoomThatIsGivenOnce) {
  const Description what{.type = ElementType::float32, .layout = contiguous(2, {1, 90, 110})};
  Random random(4);
  const Bytes source = make_source(what, random_values(random, what.layout, true));
  for (const std::string_view name : codec_names()) {
    for (const Engine engine : {Engine::reference, Engine::cpu}) {
      const auto codec = make_codec(spec_of(name), engine);
      if (!codec->accepts(what)) continue;
      const Encoding expected = encode_any(*codec, what, source);
      Bytes bytes;
      int asked = 0;
      const auto give = [&](std::size_t size) {
        ++asked;
        bytes.assign(size, std::byte{0x5A});
        return bytes.data();
      };
      const Encoded encoded =
          codec->encode_into(what, source.data(), Room(give), RandomKey{}, serial_for);
      EXPECT_EQ(asked, 1) << name;
      EXPECT_LE(bytes.size(), codec->encoded_bytes(what)) << name;
      EXPECT_EQ(encoded.representable, expected.representable) << name;
      if (!encoded.representable) continue;
      bytes.resize(encoded.bytes);
      EXPECT_EQ(bytes, expected.bytes) << name;

      const auto refuse = [](std::size_t) -> std::byte* { return nullptr; };
      EXPECT_FALSE(codec->encode_into(what, source.data(), Room(refuse), RandomKey{}, serial_for)
                       .representable)
          << name;
    }
  }
}

TEST(Contract, EpiloguesGetEachDecodedElementOnce) {
  Random random(5);
  for (const PlaneLayout& layout :
       {contiguous(3, {1, 90, 112}), contiguous(3, {1, 9, 11}), contiguous(1, {1, 1, 40'001}),
        contiguous(1200, {1, 4, 8}), channels_last(2, 16, {1, 30, 40})}) {
    const Description what{.type = ElementType::float32, .layout = layout};
    const Bytes source = make_source(what, random_values(random, layout, true));
    for (const std::string_view name : codec_names()) {
      for (const bool dithered : {false, true}) {
        CodecSpec spec = spec_of(name);
        spec.subtractive_dither = dithered;
        for (const Engine engine : {Engine::reference, Engine::cpu}) {
          const auto codec = make_codec(spec, engine);
          if (!codec->accepts(what)) continue;
          const Bytes bytes = encode(*codec, what, source);
          const Bytes decoded = decode(*codec, what, bytes);
          if (decoded.empty()) continue;
          Bytes target(source.size());
          auto* const floats = reinterpret_cast<float*>(target.data());
          std::vector<std::atomic<int>> seen(static_cast<std::size_t>(layout.elements()));
          const auto apply = [&](std::int64_t begin, std::int64_t end) {
            EXPECT_EQ(begin % 8, 0);
            for (std::int64_t k = begin; k < end; ++k) {
              ++seen[static_cast<std::size_t>(k)];
              floats[k] += 1;
            }
          };
          ASSERT_TRUE(codec->decode_with(what, bytes, floats, Epilogue(apply), two_threads));
          for (std::size_t k = 0; k < seen.size(); ++k) {
            ASSERT_EQ(seen[k], 1) << name;
            ASSERT_EQ(floats[k], load<float>(decoded, 4 * k) + 1) << name;
          }
          EXPECT_FALSE(codec->decode_with(what, {}, floats, Epilogue(apply), serial_for)) << name;
        }
      }
    }
  }
}

TEST(Contract, NamesAreUnique) {
  const auto names = codec_names();
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  EXPECT_FALSE(codec_traits("no such codec").has_value());
}

}  // namespace
}  // namespace cinch::codecs::test
