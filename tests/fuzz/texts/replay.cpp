// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: every file of the folders given, and mutations of each, the
// same ones every time.
//   TARGET_fuzz_replay FOLDER…
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

#ifdef __SANITIZE_ADDRESS__
constexpr int mutations = 100;  // many times slower; scripts/test --fuzz goes further
#else
constexpr int mutations = 1000;
#endif

/// As large as it is said to be, so that AddressSanitizer sees a byte too many.
void run(const std::string& input) {
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::string mutated(std::string input, std::mt19937& random) {
  for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 6) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.insert(at, 1, static_cast<char>(random()));
        break;
      case 2:
        input.erase(at, 1 + random() % 16);
        break;
      case 3:
        input.insert(at, input.substr(random() % (input.size() + 1), 1 + random() % 32));
        break;
      default:
        if (!input.empty()) input[at] = static_cast<char>(random());
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::mt19937 random(1);
  for (const fs::path& file : files) {
    std::printf("%s\n", file.filename().c_str());
    std::fflush(stdout);  // the last one printed is the one that failed
    std::ifstream stream(file, std::ios::binary);
    const std::string input(std::istreambuf_iterator<char>(stream), {});
    run(input);
    for (int i = 0; i < mutations; ++i) run(mutated(input, random));
  }
  std::printf("%zu files, %d mutations of each\n", files.size(), mutations);
  return files.empty() ? 1 : 0;  // a corpus that was not found
}
