// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/telemetry/report.h"

namespace cinch::cli {

/// Where the libraries that go with this executable lie.
struct Libraries {
  std::filesystem::path preload;   ///< libcinch.so
  std::vector<std::string> cores;  ///< the torch minors that there are cores for, "2.11"
  std::string problem;             ///< one line; "" when all are there and can be preloaded
};
Libraries find_libraries();

/// `library` before what LD_PRELOAD names already.
std::string preload_value(const std::filesystem::path& library);

/// A policy's name as it is, a file's path absolute: programs change their directory.
std::string absolute_policy(const std::string& policy);

/// A fresh private directory, removed with all it holds when this goes out of scope.
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

/// All reports in `directory`, the one with the most raw bytes at its peak first. Files that are
/// no reports are passed over.
std::vector<FoundReport> find_reports(const std::filesystem::path& directory);

/// The file's text. @throws std::runtime_error with a message for people
std::string read_file(const std::filesystem::path& path);

}  // namespace cinch::cli
