// SPDX-License-Identifier: Apache-2.0
// After warm-up a training step makes no driver call and no heap call.
#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include <gtest/gtest.h>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace {
thread_local std::uint64_t heap_calls = 0;
}

// Not inlined: GCC would see malloc's memory given to delete, and the other way round.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++heap_calls;
  void* data = std::malloc(bytes);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++heap_calls;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}

namespace cinch::allocator::test {
namespace {

// With a lag, of so many layers of a step, the heap calls of the fake driver's own account of work
// count, too, and are not looked at.
void expect_no_calls(const Config& config, int warm_up, std::uint64_t lag = 0) {
  FakeDriver::Options options;
  options.lag = lag;
  FakeDriver fake(options);
  Core core(fake.table(), config);
  constexpr int layers = 50;
  std::array<Address, layers> saved{};
  std::mt19937_64 random(3);
  std::array<std::size_t, layers> sizes{};
  for (auto& size : sizes) {
    const bool large = random() % 3 == 0;
    size = 1 + random() % (large ? 40 * mebibyte : 100'000);
  }
  const auto work = [&](int layer) {
    fake.advance(1);
    if (lag != 0) fake.work(layer % 2);
  };
  const auto step = [&] {
    for (int i = 0; i < layers; ++i) {
      work(i);
      const Address workspace = core.allocate(sizes[(i * 7 + 1) % layers] / 2, i % 2);
      saved[i] = core.allocate(sizes[i], i % 2);
      core.free(workspace);
    }
    for (int i = layers; i-- > 0;) {
      work(i);
      const Address gradient = core.allocate(sizes[i], i % 2);
      core.free(saved[i]);
      core.free(gradient);
    }
  };
  for (int i = 0; i < warm_up; ++i) step();
  const std::uint64_t driver_before = fake.calls();
  const std::uint64_t heap_before = heap_calls;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(fake.calls(), driver_before);
  if (lag == 0) {
    EXPECT_EQ(heap_calls, heap_before);
  } else {
    EXPECT_GT(core.stats().moved_early_bytes, 0u) << "in the first steps";
  }
}

TEST(SteadyState, NoDriverCallAndNoHeapCall) {
  expect_no_calls(Config::device(), 5);
}

TEST(SteadyState, NoDriverCallWhileTheDeviceLagsBehind) {
  expect_no_calls(Config::device(), 5, 50);    // half a step
  expect_no_calls(Config::device(), 20, 100);  // a step
}

// Where the fronts keep blocks apart it takes longer until everything has its place.
TEST(SteadyState, NoneWithFrontsEither) {
  Config config = Config::device();
  config.front_always = true;
  expect_no_calls(config, 40);
}

}  // namespace
}  // namespace cinch::allocator::test
