// SPDX-License-Identifier: Apache-2.0
// Runs allocator_fuzz without libFuzzer: every file of the folders given, and inputs made of random
// bytes, the same ones every time.
//   allocator_fuzz_replay [--write-seeds FOLDER] FOLDER…
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using Input = std::vector<std::uint8_t>;

constexpr int seed_count = 200;

std::vector<Input> seed_inputs() {
  std::vector<Input> inputs;
  std::mt19937 random(1);
  for (int i = 0; i < seed_count; ++i) {
    Input input(64 + random() % 1500);
    for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Input contents_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

int write_seeds(const fs::path& folder) {
  fs::create_directories(folder);
  int number = 0;
  for (const Input& input : seed_inputs()) {
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()), std::ssize(input));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "--write-seeds") return write_seeds(arguments[1]);
  std::size_t count = 0;
  for (const std::string& folder : arguments) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const Input input = contents_of(entry.path());
      LLVMFuzzerTestOneInput(input.data(), input.size());
      ++count;
    }
  }
  if (count == 0) {
    std::fprintf(stderr, "allocator_fuzz_replay: no inputs in the folders given\n");
    return 1;
  }
  for (const Input& input : seed_inputs()) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++count;
  }
  std::printf("%zu inputs\n", count);
  return 0;
}
