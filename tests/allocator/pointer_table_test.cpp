// SPDX-License-Identifier: Apache-2.0
#include "allocator/pointer_table.h"

#include <random>
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

}  // namespace
}  // namespace cinch::allocator
