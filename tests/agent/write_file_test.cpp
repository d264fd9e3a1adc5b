// SPDX-License-Identifier: Apache-2.0
#include "files/write_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/agent/own_directory.h"

namespace cinch::files {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;

class WriteFile : public telemetry::OwnDirectoryTest {
 protected:
  std::string at(const char* name) const { return directory_ + '/' + name; }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static unsigned mode_of(const std::string& path) {
    struct stat info {};
    lstat(path.c_str(), &info);
    return info.st_mode & 07777;
  }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(directory_), fs::directory_iterator());
  }
};

TEST_F(WriteFile, ReplacesAFileThatIsItsOwnersAlone) {
  const mode_t before = umask(0);
  EXPECT_EQ(write_file("one", at("a")), "");
  umask(before);
  EXPECT_EQ(mode_of(at("a")), 0600U);
  EXPECT_EQ(write_file("two", at("a")), "");
  EXPECT_EQ(text_of(at("a")), "two");
  chmod(at("a").c_str(), 0644);
  EXPECT_EQ(write_file("three", at("a")), "");
  EXPECT_EQ(mode_of(at("a")), 0644U) << "what somebody made of it stays";
  EXPECT_EQ(entries(), 1) << "no temporary file stays";
}

TEST_F(WriteFile, FollowsLinks) {
  fs::create_directory(at("folder"));
  fs::create_symlink("folder/real", at("link"));  // what it leads to does not exist yet
  fs::create_symlink(at("link"), at("link to link"));
  for (const char* text : {"one", "two"}) {
    EXPECT_EQ(write_file(text, at("link to link")), "");
    EXPECT_EQ(text_of(at("folder/real")), text);
    EXPECT_TRUE(fs::is_symlink(at("link")) && fs::is_symlink(at("link to link")));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(at("folder")), fs::directory_iterator()), 1);
  fs::create_symlink(at("round"), at("round"));
  EXPECT_THAT(write_file("x", at("round")), HasSubstr("symbolic links"));
}

TEST_F(WriteFile, WritesToWhatIsNoRegularFile) {
  EXPECT_EQ(write_file("x", "/dev/null"), "");
  fs::create_symlink("/dev/null", at("null"));
  EXPECT_EQ(write_file("x", at("null")), "");
  EXPECT_TRUE(fs::is_symlink(at("null")) && fs::is_character_file("/dev/null"));
  EXPECT_EQ(write_file("x", "/dev/full"), "cannot write /dev/full: No space left on device");

  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_THAT(write_file("x", at("fifo")), HasSubstr("No such device")) << "and waits for nobody";
  const int reader = open(at("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(write_file("through", at("fifo")), "");
  char text[16] = {};
  EXPECT_EQ(read(reader, text, sizeof text), 7);
  EXPECT_STREQ(text, "through");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(at("fifo")));
  EXPECT_EQ(entries(), 2);
  EXPECT_THAT(write_file("x", directory_), EndsWith("Is a directory"));
}

TEST_F(WriteFile, AddsToARedirectedStdout) {
  std::ofstream(at("log")) << "before\n";
  const int log = open(at("log").c_str(), O_WRONLY);
  EXPECT_EQ(write_file("report\n", "/dev/fd/" + std::to_string(log)), "");
  fs::create_symlink("/proc/self/fd/" + std::to_string(log), at("stdout"));
  EXPECT_EQ(write_file("again\n", at("stdout")), "");
  close(log);
  EXPECT_EQ(text_of(at("log")), "before\nreport\nagain\n");
}

TEST_F(WriteFile, LeavesTheOldFileWhereThereIsNoRoom) {
  EXPECT_EQ(write_file("old", at("a")), "");
  // As on a full disk. SIGXFSZ, which comes with it, would end this process.
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = write_file(std::string(5000, 'x'), at("a"));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error, "cannot write " + at("a") + ": File too large");
  EXPECT_EQ(text_of(at("a")), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, FollowsNothingThatLiesInTheWay) {
  // Somebody who guesses the temporary name puts a link there.
  std::ofstream(at("victim")) << "precious";
  for (int i = 0; i < 50; ++i) {
    fs::create_symlink(
        at("victim"),
        at((".cinch-" + std::to_string(getpid()) + '-' + std::to_string(i) + ".tmp").c_str()));
  }
  EXPECT_EQ(write_file("mine", at("a")), "");
  EXPECT_EQ(text_of(at("victim")), "precious");
  EXPECT_EQ(text_of(at("a")), "mine");
  EXPECT_FALSE(fs::is_symlink(at("a")));
}

TEST_F(WriteFile, ManyWritersLeaveOneWholeFile) {
  std::vector<std::string> errors(4);
  {
    std::vector<std::jthread> writers;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      writers.emplace_back([&, i] {
        const std::string text(100'000, static_cast<char>('a' + i));
        for (int k = 0; k < 20 && errors[i].empty(); ++k) errors[i] = write_file(text, at("a"));
      });
    }
  }
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  const std::string text = text_of(at("a"));
  EXPECT_EQ(text, std::string(100'000, text.at(0)));
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, TakesNamesAsLongAsNamesCanBe) {
  const std::string path = at(std::string(255, 'n').c_str());
  EXPECT_EQ(write_file("x", path), "");
  EXPECT_EQ(text_of(path), "x");
  EXPECT_EQ(write_file("x", at("no/where")),
            "cannot write " + at("no/where") + ": No such file or directory");
}

}  // namespace
}  // namespace cinch::files
