// SPDX-License-Identifier: Apache-2.0
//
// Each CUDA kernel's share of what one pass over device memory allows: the bytes that it has to
// read and write, over the time it takes, against a device-to-device copy measured in the same run.
//
// usage: codec_cuda_bench [--mib N]... [--repeat N] [--no-kernels] [NAME...]
//   --mib N     raw sizes to measure (default 1, 16, 256 and 1024)
//   --repeat N  timings of which the median counts (default 9)
//   --no-kernels  the runtime runs no kernels (tests/fakecuda): nothing is encoded, and encoded
//                 sizes are the host's codec's. Tests this program; the figures mean nothing.
//   NAME        only cases whose name contains it
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "codecs/cuda/codec.h"
#include "codecs/cuda/library/load.h"

namespace {

using cinch::codecs::CodecSpec;
using cinch::codecs::Description;
using cinch::codecs::ElementType;
using cinch::codecs::PlaneLayout;
using cinch::codecs::Reads;
namespace cuda = cinch::codecs::cuda;

[[noreturn]] void fail(const char* what, cudaError_t error) {
  std::fprintf(stderr, "codec_cuda_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call)                                                                 \
  do {                                                                              \
    if (const cudaError_t error = (call); error != cudaSuccess) fail(#call, error); \
  } while (false)

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t size) {
    CHECK(cudaMalloc(&memory_, std::max<std::size_t>(size, 16)));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(memory_); }
  std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

struct Case {
  std::string name;
  CodecSpec spec;
  ElementType type;
  std::array<std::int64_t, 3> extent;
  std::int64_t channels = 1;
  bool channels_last = false;
  Reads reads = Reads::values;
  bool samples_last = false;  ///< planes are channels-last samples: what policies do with groups
};

/// What preset `default` does to feature maps.
CodecSpec three_bits() {
  return {.name = "group_quant", .bits = 3, .subtractive_dither = true};
}

std::vector<Case> cases() {
  constexpr ElementType kF32 = ElementType::float32;
  constexpr ElementType kBf16 = ElementType::bfloat16;
  std::vector<Case> all;
  for (const ElementType type : {kF32, kBf16}) {
    const std::string suffix = type == kF32 ? "/f32" : "/bf16";
    for (const int bits : {1, 2, 4, 8}) {
      all.push_back({"group_quant/" + std::to_string(bits) + "bit" + suffix,
                     {.name = "group_quant", .bits = bits},
                     type,
                     {1, 1, 3072}});
    }
    all.push_back({"group_quant/3bit_dithered" + suffix, three_bits(), type, {1, 1, 3072}});
    CodecSpec of_roots = three_bits();
    of_roots.roots = true;
    all.push_back({"group_quant/3bit_roots" + suffix, of_roots, type, {1, 1, 3072}});
    CodecSpec with_zero = three_bits();
    with_zero.zero_code = true;
    all.push_back({"group_quant/3bit_zero_code" + suffix, with_zero, type, {1, 1, 3072}});
    for (const std::int64_t edge : {7, 14, 28, 56, 112}) {
      const std::string size = std::to_string(edge) + "x" + std::to_string(edge);
      const std::array<std::int64_t, 3> sample = {std::min<std::int64_t>(64 * 56 / edge, 512), edge,
                                                  edge};
      const auto add = [&](const std::string& name, const CodecSpec& spec, Reads reads) {
        all.push_back(
            {name + size + "_samples_last" + suffix, spec, type, sample, 1, false, reads, true});
      };
      add("group_quant/3bit_dithered_", three_bits(), Reads::values);
      CodecSpec with_sign = three_bits();
      with_sign.with_sign = true;
      add("with_sign/3bit_dithered_", with_sign, Reads::values);
      add("sign/", {.name = "sign"}, Reads::sign);
    }
    all.push_back(
        {"two_sided/4bit" + suffix, {.name = "two_sided", .bits = 4}, type, {1, 1, 3072}});
    for (const std::int64_t edge : {7, 14, 28, 56, 112, 224}) {
      const std::string size = std::to_string(edge) + "x" + std::to_string(edge);
      all.push_back({"division/" + size + suffix, {.name = "division"}, type, {1, edge, edge}, 64});
    }
    all.push_back({"division/row768" + suffix, {.name = "division"}, type, {1, 1, 768}});
    all.push_back({"division/56x56_channels_last" + suffix,
                   {.name = "division"},
                   type,
                   {1, 56, 56},
                   64,
                   true});
    all.push_back({"sign" + suffix, {.name = "sign"}, type, {1, 1, 4096}, 1, false, Reads::sign});
    all.push_back({"blpa/4bit" + suffix, {.name = "blpa", .bits = 4}, type, {1, 56, 56}, 64});
    all.push_back({"error_bounded_ratio" + suffix,
                   {.name = "error_bounded_ratio", .error_bound = 1e-1F},
                   type,
                   {1, 56, 56},
                   64});
    all.push_back({"exponent_pack" + suffix, {.name = "exponent_pack"}, type, {1, 56, 56}, 64});
    all.push_back({"fixed_point" + suffix,
                   {.name = "fixed_point", .error_bound = 1e-1F},
                   type,
                   {1, 56, 56},
                   64});
    all.push_back({"raw" + suffix, {.name = "raw"}, type, {1, 1, 4096}});
  }
  return all;
}

Description describe(const Case& c, std::int64_t bytes) {
  Description what;
  what.type = c.type;
  PlaneLayout& l = what.layout;
  l.extent = c.extent;
  l.inner = c.channels;
  const std::int64_t size = l.plane_size();
  const std::int64_t step = c.channels_last ? c.channels : 1;
  l.stride = {c.extent[1] * c.extent[2] * step, c.extent[2] * step, step};
  l.inner_stride = c.channels_last ? 1 : size;
  l.outer_stride = size * c.channels;
  l.outer = std::max<std::int64_t>(
      1, bytes / std::int64_t(cinch::codecs::element_size(c.type)) / (size * c.channels));
  if (c.samples_last) {
    std::swap(l.outer, l.inner);
    l.stride = {1, c.extent[2] * c.extent[0], c.extent[0]};
    l.inner_stride = size;
  }
  return what;
}

/// Normal numbers; a stretch of them is repeated over the whole.
std::vector<std::byte> noise(const Description& what) {
  const std::int64_t count = what.layout.elements();
  const std::size_t size = cinch::codecs::element_size(what.type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::int64_t distinct = std::min<std::int64_t>(count, 1 << 20);
  for (std::int64_t k = 0; k < distinct; ++k) {
    const float x = normal(random);
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (size == 2) bits >>= 16;
    std::memcpy(bytes.data() + k * std::int64_t(size), &bits, size);
  }
  for (std::int64_t k = distinct; k < count; k += distinct) {
    const std::int64_t some = std::min(distinct, count - k);
    std::memcpy(bytes.data() + k * std::int64_t(size), bytes.data(), some * size);
  }
  return bytes;
}

class Timer {
 public:
  Timer() {
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  /// Median seconds of one call of f(round), over `repeat` timings of `rounds` calls each.
  template <typename F>
  double median(int repeat, int rounds, const F& f) {
    std::vector<double> seconds;
    for (int i = 0; i <= repeat; ++i) {
      CHECK(cudaEventRecord(begin_));
      for (int round = 0; round < rounds; ++round) f(round);
      CHECK(cudaEventRecord(end_));
      CHECK(cudaEventSynchronize(end_));
      float ms = 0.0F;
      CHECK(cudaEventElapsedTime(&ms, begin_, end_));
      if (i > 0) seconds.push_back(ms * 1e-3 / rounds);  // the first warms up
    }
    std::nth_element(seconds.begin(), seconds.begin() + repeat / 2, seconds.end());
    return seconds[repeat / 2];
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

void measure(const Case& c, std::int64_t mib, int repeat, bool kernels) {
  const auto host = cinch::codecs::make_codec(c.spec);
  const auto device = cuda::make_device_codec(c.spec);
  const Description what = describe(c, mib << 20);
  const bool runs = host != nullptr && device != nullptr && device->accepts(what) &&
                    (cuda::load(*device, what) || !kernels);
  if (!runs) {
    std::printf("%-34s %6lld  not on CUDA\n", c.name.c_str(), static_cast<long long>(mib));
    return;
  }
  const std::vector<std::byte> source = noise(what);
  const std::size_t raw = source.size();
  const std::size_t bound = host->encoded_bytes(what);
  // Sources and targets take turns, so that no cache holds what is read next.
  const int turns =
      static_cast<int>(std::clamp<std::size_t>((std::size_t{512} << 20) / raw, 2, 64));
  DeviceMemory sources(raw * turns);
  DeviceMemory encoded((bound + 16) * turns);
  DeviceMemory results(sizeof(cuda::Result) * turns);
  DeviceMemory scratch(device->scratch_bytes(what));
  for (int i = 0; i < turns; ++i) {
    CHECK(cudaMemcpy(sources.get() + raw * i, source.data(), raw, cudaMemcpyHostToDevice));
  }
  CHECK(cudaMemset(results.get(), 0, sizeof(cuda::Result) * turns));
  const std::size_t slot = (bound + 15) / 16 * 16;  // encoded data begin at multiples of 16
  const auto encode = [&](int i) {
    i %= turns;
    if (!device->encode(what, sources.get() + raw * i, encoded.get() + slot * i,
                        reinterpret_cast<cuda::Result*>(results.get()) + i, scratch.get(), {},
                        nullptr)) {
      fail("encode", cudaGetLastError());
    }
  };

  Timer timer;
  const double copy = timer.median(repeat, turns, [&](int i) {
    const std::size_t from = raw * (i % turns);
    const std::size_t to = raw * ((i + 1) % turns);
    CHECK(cudaMemcpyAsync(sources.get() + to, sources.get() + from, raw, cudaMemcpyDeviceToDevice));
  });
  const double bandwidth = 2.0 * static_cast<double>(raw) / copy;

  for (int i = 0; i < turns; ++i) encode(i);
  CHECK(cudaDeviceSynchronize());
  cuda::Result result;
  CHECK(cudaMemcpy(&result, results.get(), sizeof result, cudaMemcpyDeviceToHost));
  if (!kernels) result.bytes = bound;
  if (result.bytes == 0) {
    std::fprintf(stderr, "codec_cuda_bench: %s: encoding wrote nothing\n", c.name.c_str());
    std::exit(1);
  }
  const double moved = static_cast<double>(raw + result.bytes);
  const double encoding = timer.median(repeat, turns, encode);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < turns; ++i) encode(i);
  const double call =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / turns;
  CHECK(cudaDeviceSynchronize());
  const double decoding = timer.median(repeat, turns, [&](int i) {
    i %= turns;
    if (!device->decode(what, {encoded.get() + slot * i, result.bytes}, sources.get() + raw * i,
                        c.reads, scratch.get(), nullptr)) {
      fail("decode", cudaGetLastError());
    }
  });
  std::printf("%-34s %6lld %8.0f %9.0f %6.2f %9.0f %6.2f %7.3f %7.1f\n", c.name.c_str(),
              static_cast<long long>(mib), bandwidth / 1e9,
              static_cast<double>(raw) / encoding / 1e9, moved / encoding / bandwidth,
              static_cast<double>(raw) / decoding / 1e9, moved / decoding / bandwidth,
              8.0 * static_cast<double>(result.bytes) / static_cast<double>(what.layout.elements()),
              call * 1e6);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  int repeat = 9;
  bool kernels = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--mib" || argument == "--repeat") && i + 1 < argc) {
      const long value = std::strtol(argv[++i], nullptr, 10);
      if (value < 1) {
        std::fprintf(stderr, "codec_cuda_bench: %s wants a number above 0\n", argument.c_str());
        return 2;
      }
      argument == "--mib" ? sizes.push_back(value) : void(repeat = static_cast<int>(value));
    } else if (argument == "--no-kernels") {
      kernels = false;
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr,
                   "usage: codec_cuda_bench [--mib N]... [--repeat N] [--no-kernels] [NAME...]\n");
      return 2;
    } else {
      names.push_back(argument);
    }
  }
  if (sizes.empty()) sizes = {1, 16, 256, 1024};

  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("codec_cuda_bench: skipped: no CUDA device here");
    return 0;
  }
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf(
      "%s; GB/s of raw data; share: of a device-to-device copy's bytes read and written a second\n",
      properties.name);
  std::printf("%-34s %6s %8s %9s %6s %9s %6s %7s %7s\n", "case", "MiB", "copy", "encode", "share",
              "decode", "share", "bits/el", "call us");
  for (const Case& c : cases()) {
    const bool wanted =
        names.empty() || std::any_of(names.begin(), names.end(), [&](const auto& n) {
          return c.name.find(n) != std::string::npos;
        });
    if (!wanted) continue;
    for (const std::int64_t mib : sizes) measure(c, mib, repeat, kernels);
  }
  return 0;
}
