// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codecs/codec.h"
#include "policy/entry.h"

namespace cinch::policy {

/// One rule of a policy file: what it matches and what it says. The first rule that matches a use
/// decides for that use.
struct Rule {
  std::string op = "*";       ///< glob over the operator's name
  std::string operand = "*";  ///< glob over the operand's name
  std::optional<codecs::ElementType> type;
  std::vector<std::string> shape;  ///< per dimension "*", "64" or ">=64"; empty matches every shape
  bool keep = false;               ///< hold the storage as it is
  std::optional<codecs::CodecSpec> codec;  ///< set unless `keep`
};

/// What becomes of float tensors of which only the origin is known (a compiled region, a custom
/// autograd.Function).
struct Treatment {
  bool keep = false;        ///< hold the storage as it is
  codecs::CodecSpec codec;  ///< meaningful unless `keep`
};

/// Where encoding and decoding run.
enum class Stream : std::uint8_t {
  current,  ///< in the program's own thread, as part of saving and of backward
  side,     ///< on a thread of Cinch's, decoding ahead in the order of the last step's backward
};

/// How decoded values are watched in training.
struct GuardSettings {
  std::uint32_t every_steps = 100;  ///< optimizer steps between two looks; 0: never
  /// Largest ||x' - x|| / ||x|| of a decoded entry x' before its class is held more precisely.
  double max_relative_error = 1.0;
  /// The same of the gradients that the operator computes from it.
  double max_gradient_error = 1.5;
};

/// A policy file, validated.
struct Settings {
  std::string name;                 ///< the preset's name, or the file's path
  std::string policy = "division";  ///< "division", "lossless" or "off"
  std::size_t min_bytes = 4096;     ///< storages below this are left to PyTorch
  std::uint32_t seed = 0;
  bool allocator_host = true;  ///< whether PyTorch's large CPU blocks come from Cinch's allocator
  bool allocator_cuda = true;  ///< whether PyTorch's CUDA memory comes from Cinch's allocator
  Stream stream = Stream::current;
  /// Entries that backward will read first stay raw up to this share of all that is stored.
  double raw_window = 0.125;
  GuardSettings guard;
  codecs::CodecSpec division;  ///< parameters of the "division" algorithm
  Treatment compiled;          ///< floats saved by a region that torch.compile compiled
  Treatment functions;         ///< floats saved by a custom autograd.Function that no rule names
  std::vector<Rule> rules;
};

/// Why a policy can't be used: one message for people.
struct PolicyError {
  std::string file;     ///< path, or the preset's name
  int line = 0;         ///< 1-based; 0 when the file could not be read
  int column = 0;       ///< 1-based
  std::string field;    ///< JSON path, "rules[1].match.op"
  std::string message;  ///< what was found and what was expected

  /// "file:line:column: field: message"
  std::string to_string() const;
};

/// Reads a policy: the name of a shipped preset, or a path (anything with a '/' or ending in
/// ".json"). Never throws on bad input.
std::variant<Settings, PolicyError> load_settings(std::string_view preset_or_path);

/// The same from text; `file` is used in messages only.
std::variant<Settings, PolicyError> parse_settings(std::string_view text, std::string_view file);

/// A preset that ships inside the library.
struct Preset {
  std::string_view name;
  std::string_view summary;  ///< the file's "description"
  std::string_view text;     ///< the JSON
};
std::span<const Preset> presets() noexcept;

/// Decides what becomes of stash entries. Pure: the same description gives the same decision;
/// thread-safe.
class Policy {
 public:
  explicit Policy(Settings settings);

  const Settings& settings() const noexcept { return settings_; }
  /// False when nothing would ever be taken ("off").
  bool enabled() const noexcept;
  /// @param caution How often the guard found entries like this one too far off; see with_caution.
  Decision decide(const EntryDescription& entry, int caution = 0) const;

 private:
  Settings settings_;
};

}  // namespace cinch::policy
