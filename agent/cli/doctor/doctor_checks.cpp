// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/doctor/doctor_checks.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "policy/policy.h"

namespace cinch::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const char* word_for(Checklist::Status status) {
  switch (status) {
    case Checklist::Status::ok:
      return "ok";
    case Checklist::Status::note:
      return "note";
    case Checklist::Status::failed:
      return "failed";
  }
  return "";
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void Checklist::add(Item item) {
  if (!json_) {
    const std::string label = item.status == Status::ok     ? style_.good("ok    ")
                              : item.status == Status::note ? style_.bold("note  ")
                                                            : style_.bad("FAILED");
    std::printf("%s  %s\n", label.c_str(), printable(item.what).c_str());
    if (!item.remedy.empty()) std::printf("        %s\n", printable(item.remedy).c_str());
    std::fflush(stdout);
  }
  items_.push_back(std::move(item));
}

bool Checklist::check(const char* name, bool passed, const std::string& what,
                      const std::string& remedy) {
  add({name, passed ? Status::ok : Status::failed, what, passed ? "" : remedy});
  return passed;
}

void Checklist::note(const char* name, const std::string& what, const std::string& remedy) {
  add({name, Status::note, what, remedy});
}

bool Checklist::all_passed() const {
  return std::ranges::none_of(items_, [](const Item& i) { return i.status == Status::failed; });
}

void Checklist::print_json() const {
  Json json = {{"version", 1}, {"works", all_passed()}, {"checks", Json::array()}};
  for (const Item& item : items_) {
    json["checks"].push_back({{"name", item.name},
                              {"status", word_for(item.status)},
                              {"what", item.what},
                              {"remedy", item.remedy}});
  }
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void check_policy_file(Checklist& list, const std::string& policy) {
  const auto loaded = policy::load_settings(policy);
  const auto* error = std::get_if<policy::PolicyError>(&loaded);
  list.check("policy", error == nullptr, "the policy " + policy + " is right",
             error == nullptr ? "" : error->to_string());
  if (error == nullptr && !policy::Policy(std::get<policy::Settings>(loaded)).enabled()) {
    list.note("policy", "the policy " + policy + " compresses nothing",
              "choose another: cinch policy list");
  }
}

void check_variables(Checklist& list) {
  if (const std::string value = variable("CINCH_DISABLE"); !value.empty() && value != "0") {
    list.note("environment", "CINCH_DISABLE is set: programs run without Cinch",
              "unset CINCH_DISABLE");
  }
  if (const std::string report = variable("CINCH_REPORT"); !report.empty()) {
    const fs::path folder = fs::absolute(report).parent_path();
    list.check("environment", access(folder.c_str(), W_OK) == 0,
               "CINCH_REPORT can be written, " + report,
               "cannot write in " + folder.string() + ": " + strerror(errno) +
                   "; let CINCH_REPORT name a file in a folder of yours");
  }
}

void check_shared_memory(Checklist& list, const std::string& folder, std::size_t bytes) {
  const std::string what = "shared memory can be had in " + folder;
  std::string pattern = folder + "/cinch-doctor-XXXXXX";
  const int file = mkostemp(pattern.data(), O_CLOEXEC);
  // Only notes, not failures: training works without shared memory.
  if (file < 0) {
    list.note("shared_memory", "no " + what + ": " + strerror(errno),
              "mount a tmpfs there that this user may write to; without it training goes on, but "
              "can't be watched");
    return;
  }
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  close(file);
  unlink(pattern.c_str());
  if (error == 0) {
    list.check("shared_memory", true, what + ", " + human_bytes(bytes), "");
  } else {
    list.note("shared_memory", "no " + what + ", " + human_bytes(bytes) + ": " + strerror(error),
              "make room there, or give it more (docker run --shm-size=1g, or --ipc=host); without "
              "it training goes on, but can't be watched");
  }
}

void check_other_preloads(Checklist& list, const std::string& ld_preload,
                          const std::string& system_preloads) {
  struct Known {
    std::string_view part;  ///< of the library's file name
    const char* what;
    const char* remedy;
  };
  static constexpr Known known[] = {
      {"torch_memory_saver", "torch_memory_saver replaces CUDA's allocations",
       "let it have them: \"allocator\": {\"cuda\": false} in the policy, or leave it out"},
      {"jemalloc", "jemalloc is preloaded too",
       "both work together; activations go through Cinch's own host allocator where the policy has "
       "one (\"allocator\": {\"host\": true})"},
      {"tcmalloc", "tcmalloc is preloaded too",
       "both work together; activations go through Cinch's own host allocator where the policy has "
       "one (\"allocator\": {\"host\": true})"},
      {"libasan", "AddressSanitizer is preloaded",
       "it has to come first in LD_PRELOAD: put libcinch.so behind it"},
      {"libcinch.so", "LD_PRELOAD names libcinch.so already",
       "cinch run adds it by itself; unset LD_PRELOAD, or start the program without cinch run"},
  };
  const auto look = [&](const std::string& text, const std::string& where) {
    std::string names = text;
    std::ranges::replace(names, ':', ' ');
    std::istringstream words(names);
    for (std::string name; words >> name;) {
      const std::string file = fs::path(name).filename().string();
      const auto* found = std::ranges::find_if(
          known, [&](const Known& k) { return file.find(k.part) != std::string::npos; });
      std::error_code error;
      if (name.find('/') != std::string::npos && !fs::exists(name, error)) {
        list.note("preloads", where + " names " + name + ", which does not exist",
                  "the loader complains and goes on; remove it");
      } else if (found != std::end(known)) {
        list.note("preloads", std::string(found->what) + " (" + where + ": " + name + ')',
                  found->remedy);
      } else {
        list.note("preloads", where + " brings in " + name,
                  "if something is wrong, try without it");
      }
    }
  };
  look(ld_preload, "LD_PRELOAD");
  look(system_preloads, "/etc/ld.so.preload");
}

bool check_core(Checklist& list, const Libraries& libraries, const std::string& torch_version) {
  const std::size_t second_dot = torch_version.find('.', torch_version.find('.') + 1);
  const std::string minor = torch_version.substr(0, second_dot);
  std::string there;
  for (const std::string& core : libraries.cores) there += (there.empty() ? "" : ", ") + core;
  // A core without a version in its name comes from a build that made only that one.
  const bool found =
      libraries.cores.empty() || std::ranges::find(libraries.cores, minor) != libraries.cores.end();
  return list.check("core", found, "there is a core for torch " + minor,
                    "there are cores for torch " + there + " in " +
                        libraries.preload.parent_path().string() +
                        " only: build one (scripts/setup --torch " + torch_version +
                        ", or pip install --no-build-isolation . with that torch), or install a "
                        "torch of these");
}

void check_cuda(Checklist& list, const nlohmann::json& facts, const Libraries& libraries) {
  const std::string runtime = facts.value("cuda", "");
  if (runtime.empty()) {
    list.note("cuda", "this torch is built without CUDA: activations on the CPU are compressed",
              "");
    return;
  }
  if (!facts.value("cuda_available", false)) {
    const std::string why = facts.value("cuda_problem", "");
    list.note("cuda", "torch is built for CUDA " + runtime + ", and no GPU can be used here",
              why.empty() ? "where one is meant to be: is the driver installed (nvidia-smi), and "
                            "handed to the container (--gpus all)?"
                          : why);
    return;
  }
  list.check("cuda", true,
             "CUDA " + runtime + ", driver " + facts.value("cuda_driver", "?") + ", " +
                 facts.value("cuda_device", "a GPU"),
             "");
  const bool plugin = std::ranges::any_of(libraries.cores, [&](const std::string& core) {
    std::error_code error;
    return fs::exists(libraries.preload.parent_path() / ("libcinch_torch_cuda-" + core + ".so"),
                      error);
  });
  if (!plugin) {
    list.note("cuda_allocator", "Cinch was built without its CUDA allocator: PyTorch's is used",
              "build it where CUDA's headers are (docs/allocator.md)");
  }
  if (const std::string backend = facts.value("cuda_backend", "native"); backend != "native") {
    list.note("cuda_allocator", "PyTorch's CUDA allocator is " + backend + ", not Cinch's",
              "unset PYTORCH_ALLOC_CONF=backend:..., or pluggable allocators, for Cinch's own");
  }
}

}  // namespace cinch::cli
