// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: every file of the folders given, the seeds for every codec,
// and a few mutations of each, the same ones every time.
//   codec_fuzz_replay [--write-seeds FOLDER] FOLDER…
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/codec_case.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using cinch::codecs::test::Bytes;

#ifdef __SANITIZE_ADDRESS__
constexpr int kMutations = 3;  // ten times slower; scripts/test --fuzz goes further
#else
constexpr int kMutations = 12;
#endif

/// As large as it is said to be, so that AddressSanitizer sees a byte too many.
void run(Bytes input) {
  input.shrink_to_fit();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

Bytes mutated(Bytes input, std::mt19937& random) {
  for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 5) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at),
                     static_cast<std::byte>(random()));
        break;
      case 2:
        if (!input.empty()) input[at] ^= std::byte{1} << random() % 8;
        break;
      default:
        if (!input.empty()) input[at] = static_cast<std::byte>(random());
    }
  }
  return input;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

Bytes contents_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

int write_seeds(const fs::path& folder) {
  fs::create_directories(folder);
  int number = 0;
  for (const Bytes& input : cinch::codecs::fuzz::seed_inputs()) {
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()), std::ssize(input));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "--write-seeds") return write_seeds(arguments[1]);
  std::mt19937 random(1);
  std::vector<Bytes> inputs = cinch::codecs::fuzz::seed_inputs();
  const std::size_t seeds = inputs.size();
  for (const std::string& folder : arguments) {
    for (const fs::path& file : files_in(folder)) {
      std::printf("%s\n", file.filename().c_str());
      std::fflush(stdout);  // the last one printed is the one that failed
      inputs.push_back(contents_of(file));
      run(inputs.back());
    }
  }
  std::printf("mutations\n");
  std::fflush(stdout);
  for (const Bytes& input : inputs) {
    run(input);
    for (int i = 0; i < kMutations; ++i) run(mutated(input, random));
  }
  std::printf("%zu files, %zu seeds, %d mutations of each\n", inputs.size() - seeds, seeds,
              kMutations);
  return inputs.size() == seeds && !arguments.empty() ? 1 : 0;  // a corpus that was not found
}
