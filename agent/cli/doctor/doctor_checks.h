// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "agent/cli/text.h"
#include "agent/cli/workplace.h"

namespace cinch::cli {

/// The results of `cinch doctor`, in order: printed one by one, or all at once as JSON.
class Checklist {
 public:
  enum class Status { ok, note, failed };
  struct Item {
    std::string name;  ///< for scripts: "torch", "shared_memory"
    Status status = Status::ok;
    std::string what;
    std::string remedy;  ///< "" where all is well
  };

  /// @param json Print nothing until `print_json`.
  Checklist(Style style, bool json) : style_(style), json_(json) {}

  /// Adds a check. `remedy` says what to do when it failed. Returns `passed`.
  bool check(const char* name, bool passed, const std::string& what, const std::string& remedy);

  /// Adds something that is no failure, but may explain one.
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

/// Checks that the policy can be loaded.
void check_policy_file(Checklist& list, const std::string& policy);

/// Checks the environment variables that Cinch reads, such as CINCH_DISABLE.
void check_variables(Checklist& list);

/// Checks that this user can make `bytes` of shared memory in `folder`, for the live view.
void check_shared_memory(Checklist& list, const std::string& folder, std::size_t bytes);

/// Notes the libraries that LD_PRELOAD or /etc/ld.so.preload loads into the program besides Cinch.
void check_other_preloads(Checklist& list, const std::string& ld_preload,
                          const std::string& system_preloads);

/// Checks that there is a core for this torch, and returns whether.
bool check_core(Checklist& list, const Libraries& libraries, const std::string& torch_version);

/// Checks CUDA and its allocator. @param facts The JSON that doctor_program.py wrote
void check_cuda(Checklist& list, const nlohmann::json& facts, const Libraries& libraries);

}  // namespace cinch::cli
