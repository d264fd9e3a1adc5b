// SPDX-License-Identifier: Apache-2.0
//
// Writes down what the CUDA engine launches to encode and decode given cases, or to apply a
// function to decoded values without its bias, and what must come of it, for sass_budget, which
// runs the machine code. Launches nothing: this file stands in for the part of the CUDA runtime
// that kernels are launched by, and device pointers are numbers.
//
// usage: record_launches SIZES <CASES >LAUNCHES
//   SIZES  a file with a line for each kernel: its mangled name and the sizes of its parameters
//   CASES  lines of key=value: name, codec, type, and perhaps bits, block, edges (0: the paper's),
//          group, residual_group, sign, dither, bound, outer, inner, depth, height, width, format
//          (contiguous; channels_last; samples_last: planes are channels-last samples), relu,
//          halved (the lower half of an element's bits is 0), spoiled (with numbers that quantizers
//          can't hold), run (Description::sides: with all its arrays), reads, function (gelu,
//          gelu_tanh, silu: is applied); of type int64 are the indices of a max-pool
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "codecs/affine.h"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/curvature/without_bias.h"
#include "codecs/float_formats.h"
#include "tests/codecs/random_cases.h"

namespace cinch::codecs::test {
namespace {

constexpr std::uint64_t kArenaAt = 0x7F0000000000;  // memory.py's GLOBAL_AT
constexpr std::uint64_t kGap = 256;                 // between buffers, which no kernel may touch

std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> all;
  return all;
}
std::map<std::string, std::vector<std::size_t>> parameter_sizes;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "record_launches: %s\n", what.c_str());
  std::exit(1);
}

void write(const void* bytes, std::size_t size) {
  std::cout.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

/// Device memory that exists only as addresses, and what it holds before the launches.
class Arena {
 public:
  std::byte* add(const Bytes& bytes, std::size_t alignment = 256) {
    const std::size_t at = (bytes_.size() + kGap + alignment - 1) / alignment * alignment;
    bytes_.resize(at + bytes.size(), std::byte{0xEE});
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(at));
    std::cout << "buffer " << at << ' ' << bytes.size() << '\n';
    return address(at);
  }
  static std::byte* address(std::size_t at) { return reinterpret_cast<std::byte*>(kArenaAt + at); }
  static std::size_t offset(const void* address) {
    return reinterpret_cast<std::uint64_t>(address) - kArenaAt;
  }
  void write_out() {
    bytes_.resize((bytes_.size() + kGap) / 16 * 16, std::byte{0xEE});
    std::cout << "arena " << bytes_.size() << '\n';
    write(bytes_.data(), bytes_.size());
  }

 private:
  Bytes bytes_;
};

void expect(const void* address, const Bytes& bytes) {
  std::cout << "expect " << Arena::offset(address) << ' ' << bytes.size() << '\n';
  write(bytes.data(), bytes.size());
}

/// Description::sides with arrays of random numbers, here and on the device.
class SideArrays {
 public:
  SideArrays(std::int64_t channels, std::int64_t run) : run_(run) {
    if (run == 0) return;
    Random random(6);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < kArrays * channels; ++i) {
      // The last is the spread.
      numbers_.push_back(i < 3 * channels ? 1.0F + 0.3F * normal(random)
                                          : std::exp(0.3F * normal(random)));
    }
  }

  Description::Sides here() const { return sides(numbers_.data()); }
  Description::Sides there(Arena& arena) const {
    if (run_ == 0) return {};
    Bytes bytes(numbers_.size() * sizeof(float));
    std::memcpy(bytes.data(), numbers_.data(), bytes.size());
    return sides(reinterpret_cast<const float*>(arena.add(bytes)));
  }

 private:
  Description::Sides sides(const float* first) const {
    if (run_ == 0) return {};
    const std::size_t channels = numbers_.size() / kArrays;
    return {first, first + channels, first + 2 * channels, first + 3 * channels, run_};
  }

  static constexpr std::int64_t kArrays = 4;

  std::int64_t run_;
  std::vector<float> numbers_;
};

class Case {
 public:
  explicit Case(const std::string& line) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) fail("no value in \"" + word + "\"");
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    const auto at = values_.find(key);
    return at == values_.end() ? otherwise : at->second;
  }
  std::int64_t number(const std::string& key, std::int64_t otherwise) const {
    return std::stoll(text(key, std::to_string(otherwise)));
  }

  CodecSpec spec() const {
    CodecSpec spec;
    spec.name = text("codec", "");
    spec.bits = static_cast<int>(number("bits", spec.bits));
    spec.block = static_cast<int>(number("block", spec.block));
    spec.edge_ceil = number("edges", 1) != 0;
    spec.group = static_cast<int>(number("group", spec.group));
    spec.residual_group = static_cast<int>(number("residual_group", spec.residual_group));
    spec.with_sign = number("sign", 0) != 0;
    spec.subtractive_dither = number("dither", 0) != 0;
    spec.roots = number("roots", 0) != 0;
    spec.zero_code = number("zero_code", 0) != 0;
    spec.error_bound = std::stof(text("bound", "0"));
    return spec;
  }
  Description description() const {
    const std::array<std::int64_t, 3> extent = {number("depth", 1), number("height", 1),
                                                number("width", 1)};
    const std::int64_t outer = number("outer", 1);
    const std::int64_t inner = number("inner", 1);
    const auto type = type_named(text("type", ""));
    if (!type) fail("no type " + text("type", ""));
    const std::string format = text("format", "contiguous");
    PlaneLayout layout = contiguous(outer * inner, extent);
    if (format == "channels_last") layout = channels_last(outer, inner, extent);
    if (format == "samples_last") layout = samples_last(outer, extent);
    Description what{.type = *type, .layout = layout};
    if (*type == ElementType::int64) what.index_extent = {extent[0], 2 * extent[1], 2 * extent[2]};
    return what;
  }
  Bytes source(const Description& what) const {
    if (what.type == ElementType::int64) return pool_indices(what);
    Bytes source = normal_floats(what, number("relu", 0) != 0);
    if (number("halved", 0) != 0) clear_lower_halves(source, element_size(what.type));
    if (number("spoiled", 0) == 0) return source;
    Random random(5);
    std::vector<float> values = values_of(what, source);
    spoil(random, values);
    return make_source(what, values);
  }
  Reads reads() const { return text("reads", "values") == "sign" ? Reads::sign : Reads::values; }

 private:
  /// Those of a max-pool with windows of 3x3 at each second pixel, and a border of one.
  static Bytes pool_indices(const Description& what) {
    Random random(8);
    Bytes source(source_bytes(what));
    const auto& extent = what.layout.extent;
    for (std::int64_t k = 0; k < what.layout.elements(); ++k) {
      const std::int64_t w = 2 * (k % extent[2]) - 1 + draw(random, 0, 2);
      const std::int64_t h = 2 * (k / extent[2] % extent[1]) - 1 + draw(random, 0, 2);
      const std::int64_t row = k / (extent[1] * extent[2]) % extent[0] * 2 * extent[1];
      reference::store_bits(
          source.data(), reference::offset_of(what.layout, k), sizeof(std::int64_t),
          static_cast<std::uint64_t>((row + std::max<std::int64_t>(h, 0)) * 2 * extent[2] +
                                     std::max<std::int64_t>(w, 0)));
    }
    return source;
  }

  std::map<std::string, std::string> values_;
};

void begin(const Case& wanted, const char* direction, const Description& what, std::size_t from,
           std::size_t to) {
  std::cout << "case " << wanted.text("name", "") << ' ' << direction << ' '
            << what.layout.elements() << ' ' << from << ' ' << to << '\n';
}

/// What a codec decodes is the source of a function.
void record_function(const Case& wanted) {
  const Description what = wanted.description();
  const auto host = make_codec(wanted.spec(), Engine::reference);
  const auto errors = host->even_errors(what);
  if (!errors) fail("no even errors: " + wanted.text("name", ""));
  const Bytes encoded = encode_any(*host, what, wanted.source(what), {7, 11, 13}).bytes;
  const Bytes x = decode(*host, what, encoded);
  const std::string name = wanted.text("function", "");
  const Smooth function = name == "silu"        ? Smooth::silu
                          : name == "gelu_tanh" ? Smooth::gelu_tanh
                                                : Smooth::gelu;
  std::vector<float> steps;
  for (std::int64_t k = 0; k < errors->groups; ++k) {
    AffineRange range;
    std::memcpy(&range, encoded.data() + errors->ranges + 4 * k, sizeof range);
    steps.push_back(float_of_bf16(range.step));
  }
  const std::int64_t n = what.layout.elements();
  const Description in_memory = {.type = what.type, .layout = PlaneLayout::rows(n, n)};
  std::vector<float> values = values_of(in_memory, x);
  apply_without_bias(function, {steps.data(), errors->order}, 0, n, values.data(), values.data(),
                     serial_for, Engine::reference);

  begin(wanted, "apply", what, x.size(), x.size());
  Arena arena;
  const auto* const ranges = arena.add(encoded) + errors->ranges;
  const auto* const from = arena.add(x);
  auto* const to = arena.add(Bytes(x.size(), std::byte{0x5A}));
  arena.write_out();
  if (!cuda::apply_without_bias(function, what.type, {ranges, errors->order}, {0, 1, n, n}, from,
                                to, nullptr)) {
    fail("apply");
  }
  expect(to, make_source(in_memory, values));
  std::cout << "end\n";
}

void record(const Case& wanted) {
  if (!wanted.text("function", "").empty()) return record_function(wanted);
  const CodecSpec spec = wanted.spec();
  Description what = wanted.description();
  const std::int64_t run = wanted.number("run", 0);
  const SideArrays sides(run == 0 ? 0 : what.layout.plane_size() / run, run);
  what.sides = sides.here();
  const auto host = make_codec(spec, Engine::reference);
  const auto device = cuda::make_device_codec(spec);
  if (host == nullptr || device == nullptr || !device->accepts(what)) {
    fail("not on CUDA: " + wanted.text("name", ""));
  }
  const Bytes source = wanted.source(what);
  const RandomKey key{7, 11, 13};
  const Encoding encoded = encode_any(*host, what, source, key);
  if (encoded.representable == (wanted.number("spoiled", 0) != 0))
    fail("not representable: " + wanted.text("name", ""));
  const std::size_t scratch_bytes = device->scratch_bytes(what);

  begin(wanted, "encode", what, source.size(), encoded.bytes.size());
  {
    Arena arena;
    const auto* const from = arena.add(source);
    auto* const out = arena.add(Bytes(host->encoded_bytes(what), std::byte{0x5A}));
    auto* const result = arena.add(Bytes(sizeof(cuda::Result)));
    auto* const scratch = arena.add(Bytes(scratch_bytes, std::byte{0x5A}));
    Description there = what;
    there.sides = sides.there(arena);
    arena.write_out();
    if (!device->encode(there, from, out, reinterpret_cast<cuda::Result*>(result), scratch, key,
                        nullptr)) {
      fail("encode");
    }
    expect(out, encoded.bytes);
    const cuda::Result outcome = {encoded.bytes.size(), encoded.representable ? 0U : 1U, 0};
    Bytes came_to(sizeof outcome);
    std::memcpy(came_to.data(), &outcome, sizeof outcome);
    expect(result, came_to);
  }
  std::cout << "end\n";

  begin(wanted, "decode", what, source.size(), encoded.bytes.size());
  {
    Arena arena;
    const auto* const in = arena.add(encoded.bytes);
    auto* const target = arena.add(Bytes(source_bytes(what), std::byte{0xA5}));
    auto* const scratch = arena.add(Bytes(scratch_bytes, std::byte{0x5A}));
    arena.write_out();
    if (!device->decode(what, {in, encoded.bytes.size()}, target, wanted.reads(), scratch,
                        nullptr)) {
      fail("decode");
    }
    expect(target, decode(*host, what, encoded.bytes, wanted.reads()));
  }
  std::cout << "end\n";
}

cudaError_t note_launch(const void* function, unsigned blocks, unsigned threads, std::size_t shared,
                        void** arguments) {
  const auto name = names().find(function);
  if (name == names().end()) fail("a kernel that was not registered");
  const auto sizes = parameter_sizes.find(name->second);
  if (sizes == parameter_sizes.end()) fail("a kernel of unknown parameters: " + name->second);
  std::cout << "launch " << name->second << ' ' << blocks << ' ' << threads << ' ' << shared << ' '
            << sizes->second.size() << '\n';
  for (std::size_t i = 0; i < sizes->second.size(); ++i) {
    std::cout << "argument " << sizes->second[i] << '\n';
    write(arguments[i], sizes->second[i]);
  }
  return cudaSuccess;
}

struct Configuration {
  dim3 blocks, threads;
  std::size_t shared;
};
Configuration pushed;

}  // namespace
}  // namespace cinch::codecs::test

// The CUDA runtime's part. These take precedence over the library's.
namespace test = cinch::codecs::test;
extern "C" {
void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  test::names()[function] = name;
}
unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared, void*) {
  test::pushed = {blocks, threads, shared};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared, void*) {
  *blocks = test::pushed.blocks;
  *threads = test::pushed.threads;
  *shared = test::pushed.shared;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments,
                               std::size_t shared, cudaStream_t) {
  return test::note_launch(kernel, blocks.x, threads.x, shared, arguments);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared, cudaStream_t) {
  return test::note_launch(function, blocks.x, threads.x, shared, arguments);
}
cudaError_t cudaPeekAtLastError() {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
/// An H100's shared memory, but few multiprocessors: blocks that stay take many pieces of work
/// each, as they do on large tensors.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10 : 1;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
}

int main(int argc, char** argv) {
  if (argc != 2) test::fail("usage: record_launches SIZES <CASES >LAUNCHES");
  std::ifstream sizes(argv[1]);
  for (std::string line; std::getline(sizes, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    auto& of = test::parameter_sizes[name];
    for (std::size_t size = 0; words >> size;) of.push_back(size);
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) test::record(test::Case(line));
  }
  return std::cout.flush() ? 0 : 1;
}
