// SPDX-License-Identifier: Apache-2.0
#include "tools/replay/replay.h"

#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/config.h"

namespace cinch::allocator {
namespace {

using testing::HasSubstr;

Trace accepted(std::string_view text) {
  auto parsed = parse_trace(text);
  if (const auto* fault = std::get_if<std::string>(&parsed)) ADD_FAILURE() << *fault;
  return std::holds_alternative<Trace>(parsed) ? std::get<Trace>(parsed) : Trace();
}

std::string refusal(std::string_view text) {
  auto parsed = parse_trace(text);
  return std::holds_alternative<std::string>(parsed) ? std::get<std::string>(parsed) : "";
}

TEST(Trace, ReadsWhatItWrites) {
  const Trace trace =
      accepted("cinch-trace 1\n# a model\na 1000 0\na 5 2\nr 0 2\nf 0\ns\na 77 0\nf 2\n");
  EXPECT_EQ(trace.title, "a model");
  EXPECT_EQ(trace.allocations, 3u);
  EXPECT_EQ(trace.operations.size(), 7u);
  EXPECT_EQ(trace.peak_bytes(), 1024u + 512u);
  EXPECT_EQ(trace.operations_per_step(), 7);
  EXPECT_EQ(accepted("cinch-trace 1\na 1 0\n").operations_per_step(), 1) << "no step ends";
  const std::string file = to_file(trace);
  EXPECT_EQ(file.substr(0, 4), "\x28\xB5\x2F\xFD");
  const Trace again = accepted(file);
  EXPECT_EQ(again.title, trace.title);
  ASSERT_EQ(again.operations.size(), trace.operations.size());
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    EXPECT_EQ(again.operations[i].kind, trace.operations[i].kind);
    EXPECT_EQ(again.operations[i].number, trace.operations[i].number);
    EXPECT_EQ(again.operations[i].bytes, trace.operations[i].bytes);
    EXPECT_EQ(again.operations[i].stream, trace.operations[i].stream);
  }
}

TEST(Trace, SaysWhatIsWrong) {
  EXPECT_EQ(refusal(""), "empty");
  EXPECT_THAT(refusal("cinch-trace 2\n"), HasSubstr("line 1: expected \"cinch-trace 1\""));
  EXPECT_THAT(refusal("cinch-trace 1\na 5\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("cinch-trace 1\na 5 0\nf 1\n"), HasSubstr("line 3"));
  EXPECT_THAT(refusal("cinch-trace 1\na 5 0\nf 0\nf 0\n"), HasSubstr("line 4"));
  EXPECT_THAT(refusal("cinch-trace 1\nx\n"), HasSubstr("expected a, f, r, s or #"));
  EXPECT_THAT(refusal("cinch-trace 1\na -5 0\n"), HasSubstr("line 2"));
  const std::string file = to_file(accepted("cinch-trace 1\na 1 0\n"));
  EXPECT_FALSE(refusal(file.substr(0, file.size() - 3)).empty());
}

// pickle.dumps({"segments": [], "device_traces": [[
//   {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": []},
//   {"action": "alloc", "addr": 2**40, "size": 2**33, "stream": 7, "time_us": 1.5},
//   {"action": "free_requested", "addr": 4096, "size": 1000, "stream": 0},
//   {"action": "free_completed", "addr": 4096, "size": 1000, "stream": 0},
//   {"action": "free_requested", "addr": 99, "size": 1, "stream": 0}]]}, protocol=2)
constexpr unsigned char snapshot[] = {
#include "tests/allocator/snapshot.inc"
};

TEST(Snapshot, IsImported) {
  const std::string_view pickle(reinterpret_cast<const char*>(snapshot), sizeof snapshot);
  auto imported = import_snapshot(pickle);
  ASSERT_TRUE(std::holds_alternative<Trace>(imported)) << std::get<std::string>(imported);
  const Trace& trace = std::get<Trace>(imported);
  ASSERT_EQ(trace.operations.size(), 3u);
  EXPECT_EQ(trace.operations[0].bytes, 1000u);
  EXPECT_EQ(trace.operations[1].bytes, std::size_t{1} << 33);
  EXPECT_EQ(trace.operations[1].stream, 1u);
  EXPECT_EQ(trace.operations[2].kind, Trace::Kind::free);
  EXPECT_EQ(trace.operations[2].number, 0u);
}

/// A snapshot of allocations, one in each of `streams` streams.
std::string snapshot_of_streams(std::uint32_t streams) {
  const auto word = [](std::string_view text) {
    return std::string("U") + static_cast<char>(text.size()) + std::string(text);
  };
  const auto number = [](std::uint32_t value) {
    std::string text = "J";
    for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(value >> shift & 0xFF);
    return text;
  };
  std::string text = "\x80\x02}" + word("device_traces") + "]](";
  for (std::uint32_t i = 0; i < streams; ++i) {
    text += "}(" + word("action") + word("alloc") + word("addr") + number(512 * i) + word("size") +
            number(512) + word("stream") + number(7 * i) + "u";
  }
  return text + "eas.";
}

TEST(Snapshot, HasNoMoreStreamsThanATrace) {
  auto imported = import_snapshot(snapshot_of_streams(Trace::most_streams));
  ASSERT_TRUE(std::holds_alternative<Trace>(imported)) << std::get<std::string>(imported);
  EXPECT_EQ(accepted(to_file(std::get<Trace>(imported))).allocations, Trace::most_streams);
  imported = import_snapshot(snapshot_of_streams(Trace::most_streams + 1));
  ASSERT_TRUE(std::holds_alternative<std::string>(imported));
  EXPECT_THAT(std::get<std::string>(imported), HasSubstr("more than 1024 streams"));
}

TEST(Snapshot, EveryDamagedOneIsRefusedOrRead) {
  for (std::size_t at = 0; at < sizeof snapshot; ++at) {
    std::string damaged(reinterpret_cast<const char*>(snapshot), sizeof snapshot);
    import_snapshot(std::string_view(damaged).substr(0, at));
    for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
      damaged[at] = static_cast<char>(value);
      import_snapshot(damaged);
    }
  }
  EXPECT_THAT(std::get<std::string>(import_snapshot("cos\nsystem\n")), HasSubstr("not a pickled"));
}

TEST(Replay, NativeModelHasPyTorchsSegments) {
  FakeDriver device;
  const auto native = native_subject(device);
  native->allocate(1000, 0);
  EXPECT_EQ(device.created_bytes(), 2 * mebibyte);
  const auto large = native->allocate(3 * mebibyte, 0);
  EXPECT_EQ(device.created_bytes(), 22 * mebibyte);
  EXPECT_NE(native->allocate(10 * mebibyte, 0), 0u) << "split off the 20 MiB segment";
  EXPECT_EQ(device.created_bytes(), 22 * mebibyte);
  native->allocate(11 * mebibyte, 0);
  EXPECT_EQ(device.created_bytes(), 34 * mebibyte);
  native->free(large);
  EXPECT_EQ(native->allocate(2 * mebibyte + 512 * kibibyte, 0), large) << "not split: 512 KiB left";
  EXPECT_EQ(native->allocate(512 * kibibyte, 0) & ~(2 * mebibyte - 1), (1ull << 40)) << "small";
}

TEST(Replay, NativeModelFreesCachedSegmentsWhenMemoryIsShort) {
  FakeDriver::Options options;
  options.memory_bytes = 64 * mebibyte;
  FakeDriver device(options);
  const auto native = native_subject(device);
  native->free(native->allocate(40 * mebibyte, 0));
  EXPECT_NE(native->allocate(50 * mebibyte, 0), 0u);
  EXPECT_EQ(native->allocate(50 * mebibyte, 0), 0u);
}

TEST(Replay, ModelsKeepABlockUntilOtherStreamsAreDone) {
  for (const auto make : {native_subject, expandable_subject}) {
    FakeDriver::Options options;
    options.lag = 10;
    FakeDriver device(options);
    const auto subject = make(device);
    const auto block = subject->allocate(20 * mebibyte, 0);
    subject->record_stream(block, 1);
    subject->record_stream(block, 0);
    device.work(1);
    subject->free(block);
    const auto other = subject->allocate(20 * mebibyte, 0);
    EXPECT_NE(other, block);
    device.advance(10);
    EXPECT_EQ(subject->allocate(20 * mebibyte, 0), block);
    subject->free(other);
    EXPECT_EQ(subject->allocate(20 * mebibyte, 0), other) << "no other stream uses it";
    EXPECT_EQ(device.misuses(), 0u);
  }
}

TEST(Replay, ModelsWaitForOtherStreamsWhenMemoryIsShort) {
  for (const auto make : {native_subject, expandable_subject}) {
    FakeDriver::Options options;
    options.memory_bytes = 40 * mebibyte;
    options.lag = 10;
    FakeDriver device(options);
    const auto subject = make(device);
    const auto block = subject->allocate(20 * mebibyte, 0);
    subject->record_stream(block, 1);
    const auto work = device.work(1);
    subject->free(block);
    EXPECT_NE(subject->allocate(40 * mebibyte, 0), 0u);
    EXPECT_TRUE(device.done(work));
  }
}

TEST(Replay, ExpandableModelGrowsOneRange) {
  FakeDriver device;
  const auto expandable = expandable_subject(device);
  const auto a = expandable->allocate(30 * mebibyte, 0);
  EXPECT_EQ(device.created_bytes(), 40 * mebibyte);
  const auto b = expandable->allocate(30 * mebibyte, 0);
  EXPECT_EQ(b, a + 30 * mebibyte);
  EXPECT_EQ(device.created_bytes(), 60 * mebibyte);
  expandable->free(a);
  expandable->free(b);
  EXPECT_EQ(expandable->allocate(75 * mebibyte, 0), a);
  EXPECT_EQ(device.created_bytes(), 80 * mebibyte);
  EXPECT_EQ(device.misuses(), 0u);
}

TEST(Replay, ExpandableModelUnmapsWhenMemoryIsShort) {
  FakeDriver::Options options;
  options.memory_bytes = 100 * mebibyte;
  FakeDriver device(options);
  const auto expandable = expandable_subject(device);
  const auto hole = expandable->allocate(60 * mebibyte, 0);
  const auto wall = expandable->allocate(20 * mebibyte, 0);
  expandable->free(hole);
  EXPECT_NE(expandable->allocate(80 * mebibyte, 0), 0u);
  EXPECT_EQ(expandable->allocate(20 * mebibyte, 0), 0u);
  expandable->free(wall);
  EXPECT_EQ(device.misuses(), 0u);
}

// Looking through all free blocks of all streams at each refusal would take as many steps as the
// square of `count`: more minutes than a test has.
TEST(Replay, RefusalsDoNotLookThroughAllBlocksOfAllStreams) {
  for (const auto make : {cinch_subject, native_subject, expandable_subject}) {
    FakeDriver device({.memory_bytes = 1024 * mebibyte});
    const auto subject = make(device);
    constexpr std::uint32_t streams = 50;
    constexpr std::uint32_t count = 30000;
    std::vector<std::uint64_t> blocks;
    for (std::uint32_t i = 0; i < count; ++i) {
      blocks.push_back(subject->allocate(1024 + i, i % streams));
      ASSERT_NE(blocks.back(), 0u);
    }
    // Every other of each stream: no page is wholly free.
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i / streams % 2 == 0) subject->free(blocks[i]);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(subject->allocate(1025 * mebibyte, i % streams), 0u);
    }
    EXPECT_EQ(device.misuses(), 0u);
  }
}

// Blocks of growing size between walls: nothing that was freed fits again.
Trace growing_sizes() {
  std::string text = "cinch-trace 1\n";
  int number = 0;
  for (int i = 0; i < 60; ++i) {
    text += "a " + std::to_string((10 + 2 * i) * mebibyte) + " 0\n";
    text += "a 5000000 0\n";
    text += "f " + std::to_string(number) + "\n";
    number += 2;
  }
  return accepted(text);
}

TEST(Replay, StitchingSavesWhatFragmentationCosts) {
  const auto outcomes = replay(growing_sizes(), std::size_t{1} << 40);
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_EQ(outcomes[0].allocator, "cinch");
  EXPECT_LT(outcomes[0].fragmentation(), 0.10);
  EXPECT_GT(outcomes[1].fragmentation(), 0.30) << outcomes[1].allocator;
  EXPECT_GT(outcomes[2].fragmentation(), outcomes[0].fragmentation()) << outcomes[2].allocator;
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.refused, 0u);
}

// Every segment of 100 MiB keeps one block of 60: PyTorch's can neither be freed nor be used
// for 90.
TEST(Replay, WhatDoesNotFitNativelyFitsHere) {
  std::string text = "cinch-trace 1\n";
  for (int i = 0; i < 16; ++i) {
    text += "a 104857600 0\nf " + std::to_string(2 * i) + "\na 62914560 0\n";
  }
  for (int i = 0; i < 6; ++i) text += "a 94371840 0\n";
  const auto outcomes = replay(accepted(text), 1616 * mebibyte);
  EXPECT_EQ(outcomes[0].peak_allocated, (16 * 60 + 6 * 90) * mebibyte);
  EXPECT_EQ(outcomes[0].refused, 0u);
  EXPECT_GT(outcomes[1].refused, 0u) << outcomes[1].allocator;
}

TEST(Replay, RefusedAllocationsAreNotInThePeak) {
  const Trace trace =
      accepted("cinch-trace 1\na 41943040 0\na 1073741824 0\nr 1 2\nf 1\na 20971520 0\nf 0\nf 2\n");
  EXPECT_EQ(trace.peak_bytes(), 1064 * mebibyte);
  EXPECT_EQ(trace.peak_bytes({false, true, false}), 60 * mebibyte);
  for (const Outcome& outcome : replay(trace, 64 * mebibyte)) {
    EXPECT_EQ(outcome.refused, 1u) << outcome.allocator;
    EXPECT_EQ(outcome.peak_allocated, 60 * mebibyte) << outcome.allocator;
    EXPECT_GE(outcome.fragmentation(), 0) << outcome.allocator;
  }
}

// The recorded trainings on a device that lags behind the host by `lag` steps: the mean of our
// allocator's fragmentation. Both of those that map whole pages are compared; whose last page has
// more to spare is chance.
double expect_little_fragmentation(double lag) {
  constexpr std::size_t page = 20 * mebibyte;
  double sum = 0;
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(CINCH_TRACES)) {
    auto loaded = load_trace(file.path());
    if (const auto* fault = std::get_if<std::string>(&loaded)) {
      ADD_FAILURE() << *fault;
      continue;
    }
    const auto outcomes = replay(std::get<Trace>(loaded), std::size_t{1} << 40, lag);
    EXPECT_LE(outcomes[0].fragmentation(), 0.05) << file.path() << ", lag " << lag;
    EXPECT_LT(outcomes[0].peak_reserved, outcomes[2].peak_reserved + page) << file.path();
    EXPECT_LT(outcomes[0].fragmentation(), outcomes[1].fragmentation()) << file.path();
    EXPECT_EQ(outcomes[0].refused, 0u) << file.path();
    EXPECT_EQ(outcomes[0].host_waits, 0u) << file.path();
    const std::string name = file.path().stem();
    const bool varying =
        name.starts_with("gpt") || name.starts_with("bert") || name.starts_with("det");
    if (!varying) {
      EXPECT_EQ(outcomes[0].calls_in_last_step, 0u) << name << ", lag " << lag;
    }
    sum += outcomes[0].fragmentation();
    ++count;
  }
  EXPECT_GE(count, 6u);
  return sum / static_cast<double>(count);
}

TEST(Replay, RecordedTrainingsFragmentLessThanWithPyTorch) {
  EXPECT_LE(expect_little_fragmentation(0), 0.05);
}

TEST(Replay, RecordedTrainingsFragmentLittleWhileTheDeviceLagsBehind) {
  for (const double lag : {0.5, 0.75, 1.0}) {
    EXPECT_LE(expect_little_fragmentation(lag), 0.05) << lag;
  }
}

}  // namespace
}  // namespace cinch::allocator
