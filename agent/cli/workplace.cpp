// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/workplace.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <tuple>

namespace cinch::cli {

namespace fs = std::filesystem;

Libraries find_libraries() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path directory = (self.parent_path().parent_path() / "lib").lexically_normal();
  Libraries found{directory / "libcinch.so", {}, ""};
  bool any_core = fs::exists(directory / "libcinch_torch.so", error);
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    constexpr std::string_view before = "libcinch_torch-";
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(before) || !name.ends_with(".so")) continue;
    found.cores.push_back(name.substr(before.size(), name.size() - before.size() - 3));
    any_core = true;
  }
  std::ranges::sort(found.cores);
  const bool any_preload = fs::exists(found.preload, error);
  if (!any_preload || !any_core) {
    found.problem = std::string(any_preload ? "libcinch_torch.so" : "libcinch.so") +
                    " is missing from " + directory.string() + ", where it belongs beside " +
                    self.string() + ": build or install it there (scripts/setup)";
  } else if (found.preload.string().find_first_of(": ") != std::string::npos) {
    found.problem = "the path " + found.preload.string() +
                    " has a space or a colon, which LD_PRELOAD cannot carry: move Cinch";
  }
  return found;
}

std::string preload_value(const fs::path& library) {
  const char* existing = std::getenv("LD_PRELOAD");
  if (existing == nullptr || *existing == '\0') return library.string();
  return library.string() + ':' + existing;
}

std::string absolute_policy(const std::string& policy) {
  const bool is_path = policy.find('/') != policy.npos || policy.ends_with(".json");
  return is_path ? fs::absolute(policy).string() : policy;
}

TemporaryDirectory::TemporaryDirectory() {
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  if (error) parent = "/tmp";
  std::string pattern = (fs::absolute(parent) / "cinch-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot create a directory in " + parent.string() + ": " +
                             strerror(errno));
  }
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<FoundReport> find_reports(const fs::path& directory) {
  std::vector<FoundReport> reports;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() != ".json") continue;
    std::string why;
    if (const auto report = telemetry::from_json(read_file(entry.path()), why)) {
      reports.push_back({entry.path(), *report});
    }
  }
  std::ranges::sort(reports, [](const FoundReport& a, const FoundReport& b) {
    const auto key = [](const telemetry::Report& r) {
      return std::tuple(r.raw_bytes_at_peak, r.active, -r.pid);
    };
    return key(a.report) > key(b.report);
  });
  return reports;
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw std::runtime_error("cannot read " + path.string() + ": it is a directory");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read " + path.string() + ": " + strerror(errno));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace cinch::cli
