// SPDX-License-Identifier: Apache-2.0
#include "allocator/blocks/pointer_table.h"

#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>

#include <gtest/gtest.h>

namespace cinch::allocator {
namespace {

TEST(PointerTable, AgreesWithAMap) {
  PointerTable<int> table;
  std::unordered_map<Address, int*> map;
  std::mt19937_64 random(1);
  std::array<int, 64> values{};
  EXPECT_EQ(table.find(512), nullptr);
  for (int i = 0; i < 200'000; ++i) {
    const Address address = 512 * (1 + random() % 3000);
    const auto found = map.find(address);
    ASSERT_EQ(table.find(address), found == map.end() ? nullptr : found->second);
    if (found != map.end()) {
      table.erase(address);
      map.erase(found);
    } else {
      int* value = &values[random() % values.size()];
      ASSERT_TRUE(table.insert(address, value));
      map.emplace(address, value);
    }
    ASSERT_EQ(table.size(), map.size());
  }
}

// Null is freed as often as anything else. It has a home like every address, and the slots there
// are empty again and again: nothing that was in one may be taken for it.
TEST(PointerTable, NullIsNeverFound) {
  PointerTable<int> table;
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find_unlocked(0), nullptr);
  int value = 0;
  for (std::uint64_t i = 1; i <= 100'000; ++i) {  // each slot is somebody's at some time
    const Address address = 512 * i;
    ASSERT_TRUE(table.insert(address, &value));
    ASSERT_EQ(table.find(0), nullptr);
    table.erase(address);
    ASSERT_EQ(table.find(0), nullptr) << "after " << i;
    ASSERT_EQ(table.find_unlocked(0), nullptr) << "after " << i;
  }
}

// What stays in the table is found, or missed, while everything around it moves; never mistaken.
TEST(PointerTable, IsReadWhileOthersChangeIt) {
  PointerTable<int> table;
  constexpr std::size_t kept = 200;
  std::vector<int> values(4096);
  for (std::size_t i = 0; i < kept; ++i) ASSERT_TRUE(table.insert(1024 * (i + 1), &values[i]));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> found{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      while (!stop) {
        const std::size_t i = random() % kept;
        const int* value = table.find_unlocked(1024 * (i + 1));
        if (value == &values[i]) ++found;
        if (value != nullptr && value != &values[i]) ++wrong;
      }
    });
  }
  std::mt19937_64 random(7);
  std::vector<bool> there(4096);
  for (int i = 0; i < 300'000 || found < 1000; ++i) {  // grows twice on the way
    const std::size_t n = kept + random() % (i < 1000 ? 200 : there.size() - kept);
    const Address address = 512 + 1024 * n;
    if (there[n]) {
      table.erase(address);
    } else {
      ASSERT_TRUE(table.insert(address, &values[n]));
    }
    there[n] = !there[n];
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
  for (std::size_t i = 0; i < kept; ++i) {
    EXPECT_EQ(table.find_unlocked(1024 * (i + 1)), &values[i]);
  }
}

}  // namespace
}  // namespace cinch::allocator
