// SPDX-License-Identifier: Apache-2.0
#include "policy/file/state_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "files/write_file.h"
#include "policy/file/json_source.h"

namespace cinch::policy {
namespace {

using Json = nlohmann::json;
using Action = Choice::Action;

constexpr int version = 1;
// No model's state is larger.
constexpr std::uintmax_t largest_file = std::uintmax_t{64} << 20;

constexpr std::pair<std::string_view, Action> actions[] = {
    {"keep", Action::keep}, {"lossless", Action::lossless}, {"encode", Action::encode}};

Json to_json(const Choice& choice) {
  Json json;
  for (const auto& [name, action] : actions) {
    if (action == choice.action) json["action"] = name;
  }
  if (choice.offload) json["offload"] = true;
  if (choice.derived) json["derived"] = true;
  if (choice.action != Action::encode) return json;
  const codecs::CodecSpec& spec = choice.spec;
  json["codec"] = {{"name", spec.name},
                   {"bits", spec.bits},
                   {"block", spec.block},
                   {"edge_ceil", spec.edge_ceil},
                   {"group", spec.group},
                   {"residual_group", spec.residual_group},
                   {"subtractive_dither", spec.subtractive_dither},
                   {"error_bound", spec.error_bound},
                   {"zero_value", spec.zero_value},
                   {"refresh", spec.refresh}};
  if (choice.mixed_bits > 0) json["mixed_bits"] = choice.mixed_bits;
  if (choice.channel_bounds != nullptr) json["channel_bounds"] = *choice.channel_bounds;
  return json;
}

Choice to_choice(const Json& json) {
  Choice choice;
  const auto& wanted = json.at("action").get_ref<const std::string&>();
  bool known = false;
  for (const auto& [name, action] : actions) {
    if (name != wanted) continue;
    choice.action = action;
    known = true;
  }
  if (!known) throw std::runtime_error("unknown action \"" + wanted + "\"");
  choice.offload = json.value("offload", false);
  choice.derived = json.value("derived", false);
  if (choice.action != Action::encode) return choice;
  const Json& codec = json.at("codec");
  codecs::CodecSpec& spec = choice.spec;
  spec.name = codec.at("name").get<std::string>();
  spec.bits = codec.at("bits").get<int>();
  spec.block = codec.at("block").get<decltype(spec.block)>();
  spec.edge_ceil = codec.at("edge_ceil").get<bool>();
  spec.group = codec.at("group").get<decltype(spec.group)>();
  spec.residual_group = codec.value("residual_group", 0);
  spec.subtractive_dither = codec.value("subtractive_dither", false);
  spec.error_bound = codec.at("error_bound").get<float>();
  spec.zero_value = codec.at("zero_value").get<bool>();
  spec.refresh = codec.at("refresh").get<decltype(spec.refresh)>();
  if (codecs::make_codec(spec) == nullptr) {
    throw std::runtime_error("no codec \"" + spec.name + "\" with such parameters");
  }
  choice.mixed_bits = json.value("mixed_bits", 0.0);
  if (!(choice.mixed_bits >= 0 && choice.mixed_bits <= 8)) {
    throw std::runtime_error("mixed_bits beyond 8");
  }
  if (json.contains("channel_bounds")) {
    auto bounds = json.at("channel_bounds").get<std::vector<float>>();
    for (const float bound : bounds) {
      if (!(bound > 0 && std::isfinite(bound))) throw std::runtime_error("a bound that is none");
    }
    choice.channel_bounds = std::make_shared<const std::vector<float>>(std::move(bounds));
  }
  return choice;
}

std::string cannot(const char* what, const std::string& path, const std::string& why) {
  return std::string("state_file: can't ") + what + " " + path + ": " + why;
}

}  // namespace

std::string state_text(const LearnedState& state) {
  Json layers = Json::array();
  for (const auto& [name, layer] : state.layers) {
    Json& json = layers.emplace_back(to_json(layer.choice));
    json["layer"] = name;
    if (!layer.numbers.empty()) json["learned"] = layer.numbers;
  }
  Json json = {{"version", version}, {"policy", state.policy}, {"layers", std::move(layers)}};
  if (!state.numbers.empty()) json["learned"] = state.numbers;
  return json.dump(1) + '\n';
}

std::variant<LearnedState, std::string> parse_state(std::string_view text) {
  const auto parsed = parse_json(text);
  if (const auto* error = std::get_if<JsonError>(&parsed)) {
    return std::to_string(error->where.line) + ":" + std::to_string(error->where.column) + ": " +
           error->message;
  }
  try {
    const Json& json = std::get<JsonSource>(parsed).document;
    if (json.at("version") != version) {
      return "found version " + json.at("version").dump() + ", expected " + std::to_string(version);
    }
    LearnedState state;
    state.policy = json.at("policy").get<std::string>();
    if (json.contains("learned")) state.numbers = json.at("learned").get<Numbers>();
    for (const Json& layer : json.at("layers")) {
      LearnedLayer& learned = state.layers[layer.at("layer").get<std::string>()];
      learned.choice = to_choice(layer);
      if (layer.contains("learned")) learned.numbers = layer.at("learned").get<Numbers>();
    }
    return state;
  } catch (const std::exception& error) {
    return std::string(error.what());
  }
}

StateFile::StateFile(const std::string& path) {
  std::error_code fault;
  if (!path.empty()) path_ = std::filesystem::absolute(path, fault);
  if (fault) path_ = path;
}

std::string StateFile::load(Director& director) const noexcept try {
  std::error_code fault;
  if (path_.empty() || !std::filesystem::exists(path_, fault)) return "";
  if (std::filesystem::file_size(path_, fault) > largest_file || fault) {
    return cannot("use", path_, "found no file of at most 64 MiB");
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) return cannot("read", path_, std::strerror(errno));
  auto state = parse_state(text);
  if (const auto* why = std::get_if<std::string>(&state)) {
    return cannot("use", path_, *why + "; starting without");
  }
  const std::string why = director.resume(std::move(std::get<LearnedState>(state)));
  return why.empty() ? "" : cannot("use", path_, why + "; starting without");
} catch (const std::exception& error) {
  return std::string("state_file: ") + error.what();
}

std::string StateFile::save(Director& director) const noexcept try {
  if (path_.empty() || !director.take_news()) return "";
  const std::string why = files::write_file(state_text(director.learned()), path_);
  return why.empty() ? "" : "state_file: " + why;
} catch (const std::exception& error) {
  return std::string("state_file: ") + error.what();
}

}  // namespace cinch::policy
