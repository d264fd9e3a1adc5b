// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of what surrounds a program, on made-up surroundings.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/cli/doctor/doctor_checks.h"

namespace cinch::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// What `examine` puts on a list, as JSON.
template <typename Examine>
nlohmann::json checks(Examine&& examine) {
  Checklist list(Style{}, /*json=*/true);
  examine(list);
  testing::internal::CaptureStdout();
  list.print_json();
  return nlohmann::json::parse(testing::internal::GetCapturedStdout()).at("checks");
}

TEST(Doctor, NamesOtherPreloadsWithARemedy) {
  const auto found = checks([](Checklist& list) {
    check_other_preloads(list, "/usr/lib/libtorch_memory_saver.so:/no/such/libjemalloc.so.2", "");
  });
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at("status"), "note");
  // The file does not exist either, which is what matters more.
  EXPECT_THAT(found[0].at("what"), HasSubstr("does not exist"));
  const auto bare =
      checks([](Checklist& list) { check_other_preloads(list, "libjemalloc.so.2", ""); });
  EXPECT_THAT(bare[0].at("what"), HasSubstr("jemalloc is preloaded too (LD_PRELOAD: "));
  const auto system =
      checks([](Checklist& list) { check_other_preloads(list, "", "torch_memory_saver.so\n"); });
  EXPECT_THAT(system[0].at("remedy"), HasSubstr("\"cuda\": false"));
  EXPECT_TRUE(checks([](Checklist& list) { check_other_preloads(list, "", ""); }).empty());
}

TEST(Doctor, MatchesTorchWithTheCores) {
  const Libraries libraries{"/x/lib/libcinch.so", {"2.11", "2.12"}, ""};
  EXPECT_EQ(
      checks([&](Checklist& list) { check_core(list, libraries, "2.12.1+cpu"); })[0].at("status"),
      "ok");
  const auto other = checks([&](Checklist& list) { check_core(list, libraries, "2.1.2"); });
  EXPECT_EQ(other[0].at("status"), "failed");
  EXPECT_THAT(other[0].at("remedy"), HasSubstr("torch 2.11, 2.12"));
}

TEST(Doctor, TriesSharedMemory) {
  const TemporaryDirectory folder;
  EXPECT_EQ(
      checks([&](Checklist& list) { check_shared_memory(list, folder.path().string(), 4096); })[0]
          .at("status"),
      "ok");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const auto none =
      checks([&](Checklist& list) { check_shared_memory(list, "/no/such/folder", 4096); });
  EXPECT_EQ(none[0].at("status"), "note");
  EXPECT_THAT(none[0].at("remedy"), HasSubstr("tmpfs"));
  const auto small = checks([&](Checklist& list) {
    check_shared_memory(list, folder.path().string(), std::size_t{1} << 60);
  });
  EXPECT_EQ(small[0].at("status"), "note");
  EXPECT_THAT(small[0].at("remedy"), HasSubstr("--shm-size"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Doctor, OfCudaThatIsNotThere) {
  const Libraries libraries{"/x/lib/libcinch.so", {"2.11"}, ""};
  const auto cpu = checks([&](Checklist& list) { check_cuda(list, {{"cuda", ""}}, libraries); });
  EXPECT_THAT(cpu[0].at("what"), HasSubstr("without CUDA"));
  const auto no_gpu = checks([&](Checklist& list) {
    check_cuda(list, {{"cuda", "13.0"}, {"cuda_available", false}}, libraries);
  });
  EXPECT_EQ(no_gpu[0].at("status"), "note");
  EXPECT_THAT(no_gpu[0].at("remedy"), HasSubstr("nvidia-smi"));
  const auto no_plugin = checks([&](Checklist& list) {
    check_cuda(list, {{"cuda", "13.0"}, {"cuda_available", true}, {"cuda_backend", "native"}},
               libraries);
  });
  EXPECT_EQ(no_plugin[0].at("status"), "ok");
  EXPECT_EQ(no_plugin[1].at("name"), "cuda_allocator");
  EXPECT_THAT(no_plugin[1].at("remedy"), HasSubstr("docs/allocator.md"));
}

}  // namespace
}  // namespace cinch::cli
