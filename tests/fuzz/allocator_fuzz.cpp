// SPDX-License-Identifier: Apache-2.0
// The allocator's core under any sequence of operations and driver failures, against the second
// account of tests/allocator/model.h. Each operation is a byte and what it needs of the bytes
// behind.
#include <cstdio>
#include <cstdlib>

#include "tests/allocator/model.h"

namespace {

using cinch::allocator::Call;
using cinch::allocator::FakeDriver;
using cinch::allocator::Stream;
using cinch::allocator::test::Model;

constexpr std::size_t unit = 64 * cinch::allocator::kibibyte;
constexpr std::size_t most_operations = 2000;

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::size_t next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::size_t next16() { return next() + 256 * next(); }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// A size of every order up to that of the device, dense around what the allocator rounds to.
std::size_t size_from(Bytes& bytes) {
  const std::size_t kind = bytes.next();
  const std::size_t value = bytes.next16();
  switch (kind % 4) {
    case 0:
      return value;  // small
    case 1:
      return value % 64 * 512 + kind / 64;
    case 2:
      return value % 300 * unit / 8 + kind / 64;
    default:
      return value % 300 * unit + kind / 64;
  }
}

void step(Model& model, Bytes& bytes) {
  const std::size_t operation = bytes.next();
  const Stream stream = operation / 16 % 4;
  const auto pick = [&] { return bytes.next() % model.blocks.size(); };
  const bool any = !model.blocks.empty();
  model.fake.advance(1);
  switch (operation % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
      model.allocate(size_from(bytes), stream);
      if (!model.blocks.empty()) model.check_accessible(model.blocks.size() - 1);
      break;
    case 4:
    case 5:
    case 6:
    case 7:
      if (any) model.free(pick());
      break;
    case 8:
      if (any) model.use_elsewhere(pick(), stream);
      break;
    case 9:
      model.fake.complete(stream);
      break;
    case 10:
      model.fake.complete_all();
      break;
    case 11:
      model.core.release_idle();
      break;
    case 12:
      model.fake.fail(static_cast<Call>(bytes.next() % cinch::allocator::call_count),
                      1 + bytes.next() % 8);
      break;
    case 13:
      model.fake.fail_any(1 + bytes.next());
      break;
    case 14:
      model.core.set_limit(std::max(model.core.stats().reserved, bytes.next() * unit));
      break;
    default:
      model.core.pause();
      model.allocate(size_from(bytes), stream);
      if (!model.blocks.empty()) model.free(pick());
      model.core.resume();
  }
}

void expect_right(const Model& model, const char* when) {
  if (model.fault.empty()) return;
  std::fprintf(stderr, "allocator_fuzz: %s: %s\n", when, model.fault.c_str());
  std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  FakeDriver::Options options = cinch::allocator::test::tight_device(unit);
  const std::size_t kind = bytes.next();
  options.synchronous = kind % 4 == 0;
  options.instant = kind % 4 < 2;
  options.lag = !options.synchronous && kind / 8 % 2 == 1 ? kind : 0;
  Model model(options, kind / 4 % 2 == 0 ? cinch::allocator::test::tight_config(unit)
                                         : cinch::allocator::test::fronted_config(unit));
  for (std::size_t i = 0; i < most_operations && !bytes.empty(); ++i) {
    step(model, bytes);
    if (i % 16 == 0) model.check();
    expect_right(model, "on the way");
  }
  model.core.set_limit(SIZE_MAX);
  model.finish();
  expect_right(model, "at the end");
  return 0;
}
