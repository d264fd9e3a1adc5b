// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "agent/cli/text.h"
#include "agent/cli/workplace.h"

namespace cinch::cli {

/// What `cinch doctor` found out, in order: printed as it goes, or all at once as JSON.
class Checklist {
 public:
  enum class Status { ok, note, failed };
  struct Item {
    std::string name;  ///< for programs: "torch", "shared_memory"
    Status status = Status::ok;
    std::string what;
    std::string remedy;  ///< "" where all is well
  };

  /// @param json Print nothing until `print_json`.
  Checklist(Style style, bool json) : style_(style), json_(json) {}

  /// `remedy` says what to do when the check failed. Returns `passed`.
  bool check(const char* name, bool passed, const std::string& what, const std::string& remedy);

  /// Something that is no failure, but may explain one.
  void note(const char* name, const std::string& what, const std::string& remedy);

  bool all_passed() const;
  const Style& style() const { return style_; }
  /// {"version": 1, "works": …, "checks": [{"name", "status", "what", "remedy"}…]}
  void print_json() const;

 private:
  void add(Item item);

  Style style_;
  bool json_;
  std::vector<Item> items_;
};

/// The policy that is meant to be used: is it right?
void check_policy_file(Checklist& list, const std::string& policy);

/// What in the environment steers Cinch already, such as CINCH_DISABLE.
void check_variables(Checklist& list);

/// Whether this user can make shared memory of `bytes`, for the live view.
void check_shared_memory(Checklist& list, const std::string& folder, std::size_t bytes);

/// Libraries that LD_PRELOAD (or /etc/ld.so.preload) brings into the program besides Cinch.
void check_other_preloads(Checklist& list, const std::string& ld_preload,
                          const std::string& system_preloads);

/// Whether there is a core for the torch of `torch_version`.
bool check_core(Checklist& list, const Libraries& libraries, const std::string& torch_version);

/// @param facts What doctor_program.py says of CUDA
void check_cuda(Checklist& list, const nlohmann::json& facts, const Libraries& libraries);

}  // namespace cinch::cli
