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
#include "policy/dtype.h"
#include "policy/entry.h"

namespace cinch::policy {

/// One rule of a policy file: what it matches and what it says. The first rule that matches a use
/// decides for that use.
struct Rule {
  /// Whose it is.
  enum class From : std::uint8_t {
    file,
    preset,  ///< of the algorithm's name
    /// The preset "default", under "budget". Where a plan decides, such a rule says how groups are
    /// held but not in how many bits; elsewhere it is a rule like any other.
    advice,
  };

  std::string op = "*";       ///< glob over the operator's name
  std::string operand = "*";  ///< glob over the operand's name
  std::optional<Dtype> dtype;
  /// Per dimension "*", "64", ">=64" or "<=64". Empty matches every shape.
  std::vector<std::string> shape;
  std::optional<bool> recomputed;          ///< Use::is_recomputed
  std::optional<bool> linear_output;       ///< Use::is_linear_output
  bool keep = false;                       ///< hold the storage as it is
  std::optional<codecs::CodecSpec> codec;  ///< set unless `keep`
  std::optional<bool> offload;             ///< in place of OffloadSettings
  From from = From::file;
};

/// How float tensors are held of which only the origin is known (a compiled region, a custom
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

/// ActNN's parameters (docs/adaptive-policies.md).
struct ActnnSettings {
  /// 1: convolutions at fixed_bits; 2: all; 3: mixed precision; 4: and offload; 5: and Cinch's
  /// allocator
  int level = 3;
  int fixed_bits = 4;               ///< L1 and L2
  double bits = 2;                  ///< L3: average over the allocated layers
  int group = 256;                  ///< elements that share a range
  std::uint64_t every_steps = 100;  ///< between two allocations
};

/// AC-GC's parameters (docs/adaptive-policies.md).
struct AcgcSettings {
  enum class Codec : std::uint8_t { quant, quant_z, cusz, jpeg, jpeg_z };
  double e2 = 0.5;                  ///< tolerated growth of the gradient's variance
  std::uint64_t every_steps = 100;  ///< between two looks
  std::size_t window = 10;          ///< looks that are averaged
  Codec codec = Codec::quant_z;
  bool expected = false;  ///< bounds in expectation rather than guaranteed
};

/// COMET's parameters (docs/adaptive-policies.md).
struct CometSettings {
  double fraction = 0.01;  ///< of the mean momentum: the gradient error's deviation
  double a = 0.32;         ///< Eq. 10's constant, in mode "paper"
  bool paper_mode = false;
  std::uint64_t every_steps = 1000;   ///< W, and the length of the warm-up
  std::uint64_t momentum_steps = 20;  ///< steps before a refresh that the moving average covers
  /// Raw bytes / encoded bytes below which a CUDA tensor moves to the host's memory; 0: none does.
  double evacuate_below = 2;
};

/// Budget's parameters (docs/adaptive-policies.md).
struct BudgetSettings {
  std::uint64_t peak_bytes = 0;  ///< most bytes that the stash may hold; 0: `ratio` decides
  double ratio = 0;              ///< raw bytes at peak / stored bytes
  /// Relative gradient variance that counts as much as a second of encoding and decoding a step.
  double variance_per_second = 0.01;
  bool offload = false;             ///< whether CUDA tensors may move to the host's memory
  std::uint64_t every_steps = 100;  ///< between two rounds of trials
};

/// What moves from CUDA devices to the host's memory, and when (ActNN's L4, COMET's evacuation).
struct OffloadSettings {
  bool enabled = false;           ///< as soon as an entry is settled
  bool rescue = true;             ///< when a device is out of memory
  std::uint64_t host_bytes = 0;   ///< most page-locked memory; 0: a share of what is available
  std::size_t min_bytes = 65536;  ///< entries held in fewer bytes stay on the device
};

/// What is done when an allocator of Cinch's has no memory left.
struct RescueSettings {
  bool enabled = true;  ///< false (the default under "off"): nothing
  bool harder = true;   ///< see policy/deciding/rescue.h
};

/// Whether values are computed from other saved tensors instead of stored (docs/derived.md).
struct DeriveSettings {
  bool enabled = false;
  /// Fused attention's output and log-sum-exp, too. Costs its forward once more: a sixtieth of a
  /// ViT's step on a GPU, a tenth on a CPU.
  bool attention = true;
  std::uint8_t depth = 2;  ///< most recipes between values and stored ones
  /// A ReLU's signs are a bit of what the batch norm before it reads, not a mask of their own.
  bool signs_in_sources = false;
};

/// A policy file, validated.
struct Settings {
  std::string name;  ///< the preset's name, or the file's path
  /// "default", "division", "actnn", "blpa", "acgc", "comet", "budget", "lossless" or "off"
  std::string policy = "division";
  std::size_t min_bytes = 4096;  ///< storages below this are left to PyTorch
  std::uint32_t seed = 0;
  bool allocator_host = true;  ///< whether PyTorch's large CPU blocks come from Cinch's allocator
  bool allocator_cuda = true;  ///< whether PyTorch's CUDA memory comes from Cinch's allocator
  /// How long an allocation that finds no memory on a CUDA device waits for other processes to give
  /// some back, if `cinch agent` runs; 0: no process is asked
  double ask_others_seconds = 2;
  bool telemetry = true;  ///< whether the process publishes its figures in a shared segment
  Stream stream = Stream::current;
  /// For each CUDA device: most source bytes that may wait for the side stream, and most bytes
  /// whose encoded size the host may not know yet.
  std::uint64_t in_flight_bytes = std::uint64_t{256} << 20;
  /// The window: entries that backward reads first stay raw, up to this share of the planned bytes.
  /// By default 0.125 with the side stream or offload, 1000 under "off", else 0.
  double raw_window = 0;
  OffloadSettings offload;
  RescueSettings rescue;
  DeriveSettings derive;
  GuardSettings guard;
  codecs::CodecSpec groups;    ///< parameters of the "default" algorithm
  codecs::CodecSpec division;  ///< parameters of the "division" algorithm
  int blpa_bits = 4;           ///< K of the "blpa" algorithm
  ActnnSettings actnn;
  AcgcSettings acgc;
  CometSettings comet;
  BudgetSettings budget;
  std::string state_file;  ///< where an adaptive policy keeps what it learned; "" nowhere
  /// Floats saved by a region that torch.compile compiled, of which it is not known what backward
  /// reads them for; all that need not be exact where `compiled_by_facts` is false.
  Treatment compiled;
  bool compiled_by_facts = true;  ///< false: the file says how they are held
  Treatment functions;            ///< floats saved by a custom autograd.Function that no rule names
  /// Other floats of operators that no rule names: those that tolerate approximation are held by
  /// the codec, all others without loss. `keep`: only what the algorithm itself is for is encoded.
  Treatment others{.keep = true, .codec = {}};
  bool others_from_preset = false;  ///< the file says nothing of them
  std::vector<Rule> rules;          ///< in the order of Rule::From

  std::size_t rules_from(Rule::From from) const noexcept;
};

/// Why a policy can't be used: one message for the user.
struct PolicyError {
  std::string file;     ///< path, or the preset's name
  int line = 0;         ///< 1-based; 0 when the file could not be read
  int column = 0;       ///< 1-based
  std::string field;    ///< JSON path, "rules[1].match.op"
  std::string message;  ///< what was found and what was expected

  /// "file:line:column: field: message"
  std::string to_string() const;
};

/// The text of a policy: the name of a shipped preset, or a path (anything with a '/' or ending in
/// ".json"). Never throws on bad input.
std::variant<std::string, PolicyError> policy_text(std::string_view preset_or_path);

/// Reads and parses a policy: policy_text, then parse_settings.
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

/// Decides how stash entries are held. Pure: the same description gives the same decision;
/// thread-safe.
class Policy {
 public:
  explicit Policy(Settings settings);

  const Settings& settings() const noexcept { return settings_; }
  /// False when no entry would ever be taken: "off" without a rescue, ActNN's level L0.
  bool enabled() const noexcept;
  /// @param caution How often the guard found entries like this one too far off; see with_caution.
  Decision decide(const EntryDescription& entry, int caution = 0) const;

 private:
  Settings settings_;
};

}  // namespace cinch::policy
