// SPDX-License-Identifier: Apache-2.0
#include "allocator/recording_driver.h"

#include <gtest/gtest.h>

#include "allocator/core.h"
#include "allocator/fake_driver.h"

namespace cinch::allocator {
namespace {

TEST(RecordingDriver, WritesDownWhatTheAllocatorDoes) {
  FakeDriver fake;
  RecordingDriver recording(fake.table());
  {
    Core core(recording.table());
    const Address block = core.allocate(3 * mebibyte);
    EXPECT_TRUE(core.free(block));
    EXPECT_EQ(core.release_idle(), 4 * mebibyte);
  }
  std::vector<Call> calls;
  for (const auto& record : recording.records()) calls.push_back(record.call);
  const std::vector<Call> expected = {
      Call::memory_info,  Call::reserve,     Call::create,     Call::create,
      Call::map,          Call::map,         Call::set_access, Call::event_create,
      Call::event_record, Call::event_query, Call::unmap,      Call::unmap,
      Call::release,      Call::release,     Call::unreserve,  Call::event_destroy};
  EXPECT_EQ(calls, expected) << recording.text();
  EXPECT_NE(recording.text().find("create 2097152 1: ok\n"), std::string::npos) << recording.text();
  recording.clear();
  EXPECT_EQ(recording.text(), "");
}

TEST(RecordingDriver, PassesFailuresOn) {
  FakeDriver fake;
  fake.fail(Call::create, 1, Status::out_of_memory);
  RecordingDriver recording(fake.table());
  Handle handle = 0;
  const Driver table = recording.table();
  EXPECT_EQ(table.create(table.self, 2 * mebibyte, &handle), Status::out_of_memory);
  EXPECT_EQ(recording.text(), "create 2097152 0: out of memory\n");
}

}  // namespace
}  // namespace cinch::allocator
