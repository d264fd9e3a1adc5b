// SPDX-License-Identifier: Apache-2.0
// A telemetry segment that another process may have written anything to: a good one, of which the
// input replaces words. Each is 3 bytes, which word, and 8, what is there then.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include "agent/telemetry/reader.h"
#include "agent/telemetry/writer.h"

namespace {

namespace fs = std::filesystem;
using namespace cinch::telemetry;

/// What a writer's segment holds after a step.
std::vector<std::uint64_t> good_segment() {
  std::string folder = fs::temp_directory_path() / "cinch-segment-fuzz-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  std::string error;
  const auto writer = Writer::create(folder, own_identity("division", "2.11.0"), error);
  if (writer == nullptr) std::abort();
  if (const Writer::Turn turn(*writer); turn) {
    writer->publish(LiveFigures{});
    writer->set_row(writer->add_row(RowKey{}), RowFigures{});
    writer->add_history(HistoryPoint{});
  }
  const fs::path file = fs::directory_iterator(folder)->path();
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(stream), {});
  writer->remove();
  fs::remove_all(folder);
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
  if (read_segment(std::as_bytes(std::span(words))).rows.size() != 1) std::abort();
  return words;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::uint64_t>& good = *new auto(good_segment());
  auto words = good;
  constexpr std::size_t place_bytes = 3;
  constexpr std::size_t change_bytes = place_bytes + sizeof(std::uint64_t);
  for (; size >= change_bytes; data += change_bytes, size -= change_bytes) {
    std::size_t place = 0;
    std::memcpy(&place, data, place_bytes);
    std::memcpy(&words[place % words.size()], data + place_bytes, sizeof(std::uint64_t));
  }
  // What is left says how much of the file there is.
  const std::size_t most = words.size() * sizeof(std::uint64_t);
  const std::size_t length = size == 0 ? most : most * data[0] / 256;
  const Run run = read_segment(std::as_bytes(std::span(words)).first(length));
  if (word(run.state).empty()) std::abort();
  return 0;
}
