// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/telemetry/report.h"

namespace cinch::cli {

/// The libraries that belong to this executable.
struct Libraries {
  std::filesystem::path preload;   ///< libcinch.so
  std::vector<std::string> cores;  ///< the torch minors that have a core, "2.11"
  std::string problem;             ///< one line; "" when all are there and can be preloaded
};
Libraries find_libraries();

/// A value for LD_PRELOAD: `library`, then the libraries that LD_PRELOAD names already.
std::string preload_value(const std::filesystem::path& library);

/// Makes a policy file's path absolute, since programs change their directory; returns a preset's
/// name as it is.
std::string absolute_policy(const std::string& policy);

/// A fresh private directory; the destructor removes it with its content.
class TemporaryDirectory {
 public:
  /// @throws std::runtime_error with a message for people
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A report that a process left, and the file that holds it.
struct FoundReport {
  std::filesystem::path file;
  telemetry::Report report;
};

/// All reports in `directory`, the one with the most raw bytes at its peak first. Skips files that
/// are no reports.
std::vector<FoundReport> find_reports(const std::filesystem::path& directory);

/// The file's text. @throws std::runtime_error with a message for people
std::string read_file(const std::filesystem::path& path);

}  // namespace cinch::cli
