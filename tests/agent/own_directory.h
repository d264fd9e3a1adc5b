// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace cinch::telemetry {

/// Every test has an empty directory of its own.
class OwnDirectoryTest : public testing::Test {
 protected:
  OwnDirectoryTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cinch-test-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~OwnDirectoryTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

}  // namespace cinch::telemetry
