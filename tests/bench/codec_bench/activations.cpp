// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/activations.h"

#include <cstring>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "codecs/layout.h"

namespace cinch::bench {
namespace {

using codecs::Description;
using codecs::PlaneLayout;
using nlohmann::json;

PlaneLayout layout_of(const json& fields) {
  PlaneLayout layout;
  fields.at("outer").get_to(layout.outer);
  fields.at("inner").get_to(layout.inner);
  fields.at("outer_stride").get_to(layout.outer_stride);
  fields.at("inner_stride").get_to(layout.inner_stride);
  fields.at("extent").get_to(layout.extent);
  fields.at("stride").get_to(layout.stride);
  return layout;
}

/// Fills with the file's content over and over.
/// @throws std::runtime_error when the file isn't `once` bytes long
void fill_repeatedly(const std::filesystem::path& file, std::size_t once,
                     std::span<std::byte> bytes) {
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(once));
  if (!in || in.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(file.string() + " is not as long as index.json has it");
  }
  for (std::size_t at = once; at < bytes.size(); at += once) {
    std::memcpy(bytes.data() + at, bytes.data(), once);
  }
}

}  // namespace

std::vector<Activation> load_activations(const std::filesystem::path& folder, std::int64_t bytes) {
  std::ifstream in(folder / "index.json");
  if (!in) throw std::runtime_error("no index.json in " + folder.string());
  const json index = json::parse(in);
  std::vector<Activation> all;
  for (const json& entry : index.at("tensors")) {
    Activation& next = all.emplace_back();
    entry.at("kind").get_to(next.kind);
    entry.at("name").get_to(next.source.name);
    Description& what = next.source.what;
    const auto type = codecs::type_named(entry.at("type").get<std::string>());
    what.layout = layout_of(entry.at("layout"));
    if (!type || !codecs::is_valid(what.layout) || what.layout.elements() == 0 ||
        what.layout.outer_stride * what.layout.outer != what.layout.elements()) {
      throw std::runtime_error("index.json: bad type or layout of " + next.source.name);
    }
    what.type = *type;
    if (entry.contains("index_extent")) entry["index_extent"].get_to(what.index_extent);
    const std::size_t once = next.source.bytes();
    what.layout.outer *= (bytes + std::int64_t(once) - 1) / std::int64_t(once);
    const std::filesystem::path file = folder / entry.at("file").get<std::string>();
    next.source.fill = [=](std::span<std::byte> out) { fill_repeatedly(file, once, out); };
  }
  return all;
}

}  // namespace cinch::bench
