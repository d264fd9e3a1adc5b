// SPDX-License-Identifier: Apache-2.0
// GB/s of raw data for every codec, one thread, beside memcpy of as much in the same run.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "codecs/codec.h"

namespace cinch::codecs {
namespace {

constexpr std::int64_t kBytes = std::int64_t{32} << 20;

struct Case {
  std::string name;
  CodecSpec spec;
  Description what;
  std::function<std::vector<std::byte>(const Description&)> make;
  Reads reads = Reads::values;
};

/// Description of about kBytes of planes of `extent`.
Description planes(ElementType type, std::array<std::int64_t, 3> extent, bool channels_last) {
  Description what;
  what.type = type;
  PlaneLayout& layout = what.layout;
  layout.extent = extent;
  const std::int64_t size = layout.plane_size();
  const std::int64_t count = kBytes / std::int64_t(element_size(type)) / size;
  layout.inner = channels_last ? 64 : 1;
  layout.outer = count / layout.inner;
  layout.stride = {extent[1] * extent[2] * layout.inner, extent[2] * layout.inner, layout.inner};
  layout.inner_stride = 1;
  layout.outer_stride = size * layout.inner;
  return what;
}

constexpr std::int64_t kChannels = 64;
constexpr std::array<float, kChannels> kCenters = {};
constexpr auto kScales = [] {
  std::array<float, kChannels> scales;
  scales.fill(1.0F);
  return scales;
}();

/// Description of about kBytes of samples of kChannels channels, contiguous.
Description channels(ElementType type, std::int64_t edge) {
  Description what = planes(type, {1, edge, edge}, false);
  what.layout.inner = kChannels;
  what.layout.outer /= kChannels;
  what.layout.inner_stride = edge * edge;
  what.layout.outer_stride = kChannels * edge * edge;
  return what;
}

/// Description of about kBytes of samples (64, 56, 56) whose channels are interleaved.
Description samples_last(ElementType type) {
  Description what = planes(type, {64, 56, 56}, false);
  what.layout.stride = {1, 56 * 64, 64};
  return what;
}

template <typename T, typename F>
std::vector<std::byte> fill(const Description& what, F f) {
  std::vector<std::byte> bytes(what.layout.elements() * sizeof(T));
  for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
    const T value = f(k);
    std::memcpy(bytes.data() + k * std::int64_t(sizeof(T)), &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> noise(const Description& what) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  if (what.type == ElementType::float32) {
    return fill<float>(what, [&](std::int64_t) { return normal(random); });
  }
  return fill<std::uint16_t>(what, [&](std::int64_t) {
    const float x = normal(random);
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
  });
}

template <typename T>
std::vector<std::byte> mask(const Description& what) {
  std::mt19937 random(1);
  return fill<T>(what, [&](std::int64_t) { return static_cast<T>(random() & 1U); });
}

/// 2x2 stride 2 pooling of planes of twice the extent.
std::vector<std::byte> indices(const Description& what) {
  std::mt19937 random(1);
  const std::int64_t width = what.layout.extent[2];
  return fill<std::int64_t>(what, [&](std::int64_t k) {
    const std::int64_t i = k % what.layout.plane_size();
    const std::int64_t h = i / width * 2 + (random() & 1U);
    return h * 2 * width + i % width * 2 + (random() & 1U);
  });
}

std::vector<Case> cases() {
  constexpr ElementType kF32 = ElementType::float32;
  std::vector<Case> all;
  for (const std::int64_t edge : {7, 14, 28, 56, 112}) {
    all.push_back({"division/" + std::to_string(edge) + "x" + std::to_string(edge),
                   {.name = "division"},
                   planes(kF32, {1, edge, edge}, false),
                   noise});
  }
  for (const std::int64_t row : {256, 768, 3072}) {
    all.push_back({"division/row" + std::to_string(row),
                   {.name = "division"},
                   planes(kF32, {1, 1, row}, false),
                   noise});
  }
  all.push_back({"division_4bit/row768",
                 {.name = "division", .bits = 4},
                 planes(kF32, {1, 1, 768}, false),
                 noise});
  all.push_back({"division_bf16/56x56",
                 {.name = "division"},
                 planes(ElementType::bfloat16, {1, 56, 56}, false),
                 noise});
  all.push_back({"division_channels_last/56x56",
                 {.name = "division"},
                 planes(kF32, {1, 56, 56}, true),
                 noise});
  for (const std::int64_t edge : {7, 28, 56}) {
    all.push_back({"blpa_4bit/" + std::to_string(edge) + "x" + std::to_string(edge),
                   {.name = "blpa", .bits = 4},
                   channels(kF32, edge),
                   noise});
    Description given = channels(kF32, edge);
    given.channel_center = kCenters.data();
    given.channel_scale = kScales.data();
    all.push_back({"blpa_4bit_given/" + std::to_string(edge) + "x" + std::to_string(edge),
                   {.name = "blpa", .bits = 4},
                   given,
                   noise});
  }
  all.push_back({"blpa_4bit_bf16/56x56",
                 {.name = "blpa", .bits = 4},
                 channels(ElementType::bfloat16, 56),
                 noise});
  for (const int bits : {1, 2, 3, 4, 8}) {
    all.push_back({"group_quant/" + std::to_string(bits) + "bit",
                   {.name = "group_quant", .bits = bits},
                   planes(kF32, {64, 64, 64}, false),
                   noise});
  }
  all.push_back({"group_quant_bf16/2bit",
                 {.name = "group_quant"},
                 planes(ElementType::bfloat16, {64, 64, 64}, false),
                 noise});
  all.push_back({"group_quant_bf16/8bit",
                 {.name = "group_quant", .bits = 8},
                 planes(ElementType::bfloat16, {64, 64, 64}, false),
                 noise});
  all.push_back(
      {"group_quant_channels_last/2bit", {.name = "group_quant"}, samples_last(kF32), noise});
  const Description flat = planes(kF32, {1, 1, 4096}, false);
  all.push_back({"sign/f32", {.name = "sign"}, flat, noise, Reads::sign});
  all.push_back({"sign/bf16",
                 {.name = "sign"},
                 planes(ElementType::bfloat16, {1, 1, 4096}, false),
                 noise,
                 Reads::sign});
  all.push_back({"two_valued/f32", {.name = "two_valued"}, flat, mask<float>});
  all.push_back({"two_valued/bool",
                 {.name = "two_valued"},
                 planes(ElementType::boolean, {1, 1, 4096}, false),
                 mask<std::uint8_t>});
  all.push_back({"raw/f32", {.name = "raw"}, flat, noise});
  Description pooled = planes(ElementType::int64, {1, 56, 56}, false);
  pooled.index_extent = {1, 112, 112};
  all.push_back({"window_index/2x2", {.name = "window_index"}, pooled, indices});
  return all;
}

void copy(benchmark::State& state, const Case& c) {
  const std::vector<std::byte> source = c.make(c.what);
  std::vector<std::byte> target(source.size());
  for (auto _ : state) {
    std::memcpy(target.data(), source.data(), source.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t(source.size()));
}

void encode(benchmark::State& state, const Case& c) {
  const auto codec = make_codec(c.spec);
  const std::vector<std::byte> source = c.make(c.what);
  std::vector<std::byte> out(codec->encoded_bytes(c.what));
  for (auto _ : state) {
    if (!codec->encode(c.what, source.data(), out, {}, serial_for).representable) {
      state.SkipWithError("not representable");
    }
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t(source.size()));
}

void decode(benchmark::State& state, const Case& c) {
  const auto codec = make_codec(c.spec);
  std::vector<std::byte> source = c.make(c.what);
  std::vector<std::byte> out(codec->encoded_bytes(c.what));
  codec->encode(c.what, source.data(), out, {}, serial_for);
  for (auto _ : state) {
    if (!codec->decode(c.what, out, source.data(), c.reads, serial_for)) {
      state.SkipWithError("not decoded");
    }
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t(source.size()));
}

}  // namespace
}  // namespace cinch::codecs

int main(int argc, char** argv) {
  using namespace cinch::codecs;
  benchmark::Initialize(&argc, argv);
  for (const Case& c : cases()) {
    const auto add = [&](const char* what, auto run) {
      benchmark::RegisterBenchmark((c.name + "/" + what).c_str(), [=](benchmark::State& state) {
        run(state, c);
      })->Unit(benchmark::kMillisecond);
    };
    add("memcpy", copy);
    add("encode", encode);
    add("decode", decode);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
