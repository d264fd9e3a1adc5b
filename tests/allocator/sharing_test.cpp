// SPDX-License-Identifier: Apache-2.0
// How memory is named between processes, and how its descriptors get there.
#include <cstring>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/core.h"
#include "allocator/torch/cuda/sharing/descriptors.h"
#include "allocator/torch/cuda/sharing/shared_handles.h"
#include "tools/fake_driver.h"

namespace cinch::allocator {
namespace {

SharedHandles handles(std::vector<SharedHandles::Piece> pieces) {
  return {.process = 1234, .serial = 77, .pieces = std::move(pieces)};
}

void expect_same(const SharedHandles& one, const SharedHandles& other) {
  EXPECT_EQ(one.process, other.process);
  EXPECT_EQ(one.serial, other.serial);
  ASSERT_EQ(one.pieces.size(), other.pieces.size());
  for (std::size_t i = 0; i < one.pieces.size(); ++i) {
    EXPECT_EQ(one.pieces[i].bytes, other.pieces[i].bytes);
    EXPECT_EQ(one.pieces[i].descriptor, other.pieces[i].descriptor);
  }
}

TEST(SharedHandles, OfOneSizeArePyTorchsExpandableSegments) {
  const SharedHandles shared = handles({{2 * mebibyte, 5}, {2 * mebibyte, 9}});
  const std::string text = shared.text();
  // As ExpandableSegment::share of PyTorch 2.11 writes it.
  struct Header {
    pid_t process;
    std::size_t segment_size;
    std::size_t num_handles;
  };
  ASSERT_EQ(text.size(), 2 + sizeof(Header) + 2 * sizeof(int));
  EXPECT_EQ(text.substr(0, 2),
            "\x02"
            "e");
  Header header;
  std::memcpy(&header, text.data() + 2, sizeof header);
  EXPECT_EQ(header.process, 1234);
  EXPECT_EQ(header.segment_size, 2 * mebibyte);
  EXPECT_EQ(header.num_handles, 2u);
  int descriptors[2];
  std::memcpy(descriptors, text.data() + 2 + sizeof header, sizeof descriptors);
  EXPECT_EQ(descriptors[0], 5);
  EXPECT_EQ(descriptors[1], 9);
  EXPECT_FALSE(SharedHandles::is_ours(text));
  const auto parsed = SharedHandles::parse(text);
  ASSERT_TRUE(parsed);
  expect_same(*parsed, shared);
}

TEST(SharedHandles, OfSeveralSizesAreOurOwn) {
  const SharedHandles shared = handles({{2 * mebibyte, 5}, {20 * mebibyte, 9}, {4 * mebibyte, 6}});
  EXPECT_TRUE(SharedHandles::is_ours(shared.text()));
  const auto parsed = SharedHandles::parse(shared.text());
  ASSERT_TRUE(parsed);
  expect_same(*parsed, shared);
  EXPECT_EQ(parsed->bytes(), 26 * mebibyte);
}

TEST(SharedHandles, OthersTextsAreNone) {
  const std::string text = handles({{mebibyte, 5}, {mebibyte, 6}}).text();
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(SharedHandles::parse(text.substr(0, length))) << length;
  }
  EXPECT_FALSE(SharedHandles::parse(std::string("\x02"
                                                "c") +
                                    std::string(64, 'x')))
      << "cudaMalloc's";
  std::string later = text;
  later[0] = 3;
  EXPECT_FALSE(SharedHandles::parse(later));
  EXPECT_FALSE(SharedHandles::parse(text + std::string(2 * 60, 'x'))) << "fabric handles";
  std::string none = text;
  std::memset(none.data() + 2 + 8, 0, 8);
  EXPECT_FALSE(SharedHandles::parse(none)) << "pieces of no size";
}

TEST(Descriptors, AForkedChildGetsThemByBothWaysAndOnlyThosePermitted) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  static int permitted = -1;
  permitted = ends[0];
  ASSERT_TRUE(serve_descriptors([](std::int32_t descriptor) { return descriptor == permitted; }));
  ASSERT_TRUE(serve_descriptors([](std::int32_t descriptor) { return descriptor == permitted; }));
  ASSERT_EQ(write(ends[1], "ab", 2), 2);
  const pid_t sender = getpid();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string fault;
    char got = 0;
    const int by_socket = fetch_by_socket(sender, permitted, fault);
    if (by_socket < 0 || read(by_socket, &got, 1) != 1 || got != 'a') _exit(1);
    if (fetch_by_socket(sender, ends[1], fault) >= 0) _exit(2);
    if (fault.find("the sender's socket") == std::string::npos) _exit(3);
    const int either = fetch_descriptor(sender, permitted, fault);
    if (either < 0 || read(either, &got, 1) != 1 || got != 'b') _exit(4);
    // A child serves for itself, under its own number.
    if (!serve_descriptors([](std::int32_t) { return true; })) _exit(5);
    if (fetch_by_socket(getpid(), either, fault) < 0) _exit(6);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::string fault;
  EXPECT_LT(fetch_descriptor(child, 0, fault), 0) << "it has ended";
  EXPECT_FALSE(fault.empty());
  close(ends[0]);
  close(ends[1]);
}

TEST(Core, TellsWhatLiesBehindAUsedBlock) {
  FakeDriver fake;
  Config config = Config::device();
  config.large_page = 4 * mebibyte;
  config.least_large_page = 4 * mebibyte;
  Core core(fake.table(), config);
  const Address first = core.allocate(5 * mebibyte);
  const Address second = core.allocate(6 * mebibyte);
  ASSERT_EQ(second, first + 5 * mebibyte) << "both on the handle in the middle";
  const auto behind_first = core.behind(first);
  const auto behind_second = core.behind(second);
  ASSERT_EQ(behind_first.size(), 2u);
  ASSERT_EQ(behind_second.size(), 2u);
  EXPECT_EQ(behind_first[0].address, first);
  EXPECT_EQ(behind_first[1].handle, behind_second[0].handle);
  EXPECT_EQ(behind_second[0].address, first + 4 * mebibyte) << "begins before the block";
  EXPECT_EQ(behind_second[1].bytes, 4 * mebibyte);
  core.free(first);
  EXPECT_TRUE(core.behind(first).empty());
  core.free(second);
}

}  // namespace
}  // namespace cinch::allocator
