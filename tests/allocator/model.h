// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace cinch::allocator::test {

/// An allocator under test, with a second account of what is used and of which work on the device
/// memory may not be used or unmapped before. The first thing that is wrong is kept in `fault`.
class Model {
 public:
  Model(const FakeDriver::Options& options, const Config& config)
      : fake(options),
        core(fake.table(), config),
        fronts_(config.front_always),
        synchronous_(options.synchronous) {
    fake.on_unmap([this](Address address, std::size_t bytes) { unmapping(address, bytes); });
  }

  ~Model() { fake.on_unmap(nullptr); }

  struct Block {
    Address address;
    std::size_t bytes;
    std::vector<FakeDriver::Work> work;  // what uses it, the last in each stream
    std::size_t requested;
    std::size_t rounded;
  };

  void allocate(std::size_t bytes, Stream stream) {
    const Address address = core.allocate(bytes, stream, stream + 1);
    if (address == 0) {
      ++refused;
      return;
    }
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    if (overlaps(address, size)) note("a block overlaps another");
    for (const auto& [begin, left] : overlapping(address, size)) {
      for (const FakeDriver::Work& work : left->work) {
        if (!fake.ordered(work, stream)) note("a block is used again too early");
      }
    }
    forget(address, size);
    live_.emplace(address, size);
    const std::size_t rounded = core.size_of(address);
    requested_ += bytes;
    allocated_ += rounded;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    blocks.push_back({address, size, {fake.work(stream)}, bytes, rounded});
  }

  void use_elsewhere(std::size_t index, Stream stream) {
    Block& block = blocks[index];
    if (!core.record_stream(block.address, stream)) return;
    block.work.push_back(fake.work(stream));
  }

  void free(std::size_t index) {
    const Block block = take(index);
    if (!core.free(block.address)) note("free refused a used block");
    if (core.free(block.address)) note("free took a block twice");
    if (core.free(0)) note("free took null");
    remember(block);
  }

  void check() {
    std::string what;
    if (!core.verify(what)) note(what.c_str());
    const Stats stats = core.stats();
    if (stats.allocated != allocated_) note("allocated bytes miscounted");
    if (stats.requested != requested_) note("requested bytes miscounted");
    if (stats.used_blocks != live_.size()) note("used blocks miscounted");
    if (stats.allocations - stats.frees != live_.size()) note("allocations or frees miscounted");
    if (stats.pools[0].blocks.added + stats.pools[1].blocks.added != stats.allocations) {
      note("a pool's allocations miscounted");
    }
    // Fronts may make it seem higher.
    if (fronts_ ? stats.peak_allocated < peak_allocated_
                : stats.peak_allocated != peak_allocated_) {
      note("peak of allocated bytes wrong");
    }
    if (stats.reserved != fake.created_bytes()) note("reserved bytes miscounted");
    if (fake.misuses() != 0) note("the driver was misused");
  }

  void check_accessible(std::size_t index) {
    if (!fake.accessible(blocks[index].address, blocks[index].bytes)) note("a block has no memory");
  }

  /// Frees everything; afterwards nothing may be left.
  void finish() {
    fake.stop_failing();
    while (!blocks.empty()) free(blocks.size() - 1);
    fake.complete_all();
    core.release_idle();
    check();
    if (fake.created_bytes() != 0 || fake.handles() != 0) note("memory was lost");
    if (core.stats().allocated != 0) note("allocated bytes do not return to zero");
    if (fake.reserved_address_bytes() != 0) note("addresses were lost");
  }

  void note(const char* what) {
    if (fault.empty()) fault = what;
  }

  FakeDriver fake;
  Core core;
  std::vector<Block> blocks;
  std::string fault;
  std::uint64_t refused = 0;

 private:
  struct Left {
    std::size_t bytes;
    std::vector<FakeDriver::Work> work;
  };

  bool overlaps(Address address, std::size_t bytes) const {
    const auto after = live_.lower_bound(address);
    if (after != live_.end() && after->first < address + bytes) return true;
    return after != live_.begin() && std::prev(after)->first + std::prev(after)->second > address;
  }

  Block take(std::size_t index) {
    if (synchronous_) fake.complete_all();
    std::swap(blocks[index], blocks.back());
    Block block = blocks.back();
    blocks.pop_back();
    live_.erase(block.address);
    requested_ -= block.requested;
    allocated_ -= block.rounded;
    return block;
  }

  void remember(const Block& block) {
    forget(block.address, block.bytes);
    left_[block.address] = {block.bytes, block.work};
  }

  std::vector<std::pair<Address, const Left*>> overlapping(Address address,
                                                           std::size_t bytes) const {
    std::vector<std::pair<Address, const Left*>> result;
    auto at = left_.upper_bound(address);
    if (at != left_.begin()) --at;
    for (; at != left_.end() && at->first < address + bytes; ++at) {
      if (at->first + at->second.bytes > address) result.emplace_back(at->first, &at->second);
    }
    return result;
  }

  // Cuts the range out of what was left by earlier users.
  void forget(Address address, std::size_t bytes) {
    const Address end = address + bytes;
    for (const auto& [begin, left] : overlapping(address, bytes)) {
      const Left whole = *left;
      left_.erase(begin);
      if (begin < address) left_[begin] = {address - begin, whole.work};
      if (begin + whole.bytes > end) left_[end] = {begin + whole.bytes - end, whole.work};
    }
  }

  void unmapping(Address address, std::size_t bytes) {
    if (overlaps(address, bytes)) note("memory in use is unmapped");
    for (const auto& [begin, left] : overlapping(address, bytes)) {
      for (const FakeDriver::Work& work : left->work) {
        if (!fake.done(work)) note("memory is unmapped while the device works with it");
      }
    }
    forget(address, bytes);
  }

  const bool fronts_;
  const bool synchronous_;  // all work with a block is done before its free
  std::map<Address, std::size_t> live_;
  std::size_t requested_ = 0;
  std::size_t allocated_ = 0;
  std::size_t peak_allocated_ = 0;
  std::map<Address, Left> left_;  // freed, and by whom used before
};

/// A size as training asks for them: many small ones, some large.
inline std::size_t random_size(std::mt19937_64& random, std::size_t unit) {
  const std::uint64_t kind = random() % 10;
  if (kind < 4) return 1 + random() % (unit / 32);
  if (kind < 7) return 1 + random() % (unit / 2);
  if (kind < 9) return 1 + random() % (4 * unit);
  return 1 + random() % (24 * unit);
}

/// One random operation, drawn from `random`.
inline void random_step(Model& model, std::mt19937_64& random, std::size_t unit,
                        std::size_t most_blocks) {
  constexpr Stream streams = 4;
  const auto pick = [&] { return random() % model.blocks.size(); };
  const Stream stream = random() % streams;
  const std::uint64_t kind = random() % 1000;
  const bool full = model.blocks.size() >= most_blocks;
  if (kind < 450 && !full) {
    model.allocate(random_size(random, unit), stream);
    if (!model.blocks.empty() && kind < 20) model.check_accessible(model.blocks.size() - 1);
  } else if (kind < 900) {
    if (!model.blocks.empty()) model.free(pick());
  } else if (kind < 950) {
    if (!model.blocks.empty()) model.use_elsewhere(pick(), stream);
  } else if (kind < 985) {
    model.fake.complete(stream);
  } else if (kind < 990) {
    model.fake.complete_all();
  } else if (kind < 992) {
    model.core.release_idle();
  } else if (kind < 996) {
    model.fake.fail(static_cast<Call>(random() % call_count), 1 + random() % 20);
  } else if (kind < 998) {
    model.core.pause();
    model.allocate(random_size(random, unit), stream);
    if (!model.blocks.empty()) model.free(pick());
    model.core.resume();
  } else if (!model.blocks.empty()) {
    const Model::Block block = model.blocks[pick()];
    const std::size_t bytes = model.core.size_of(block.address);
    model.core.pin(block.address);
    model.allocate(random_size(random, unit), stream);
    model.core.release_idle();
    if (!model.fake.accessible(block.address, block.bytes)) model.note("pinned memory was moved");
    model.core.unpin(block.address, bytes);
  }
}

/// A small device: everything is tight.
inline FakeDriver::Options tight_device(std::size_t unit) {
  FakeDriver::Options options;
  options.granularity = unit;
  options.memory_bytes = 256 * unit;
  options.address_bytes = 4096 * unit;
  options.max_handles = 200;
  options.instant = false;
  return options;
}

inline Config tight_config(std::size_t unit) {
  Config config;
  config.small_limit = unit / 2;
  config.quick_limit = unit / 32;
  config.small_page = unit;
  config.large_page = 10 * unit;
  config.least_large_page = unit;
  config.region_bytes = 512 * unit;
  return config;
}

/// The same with freed blocks always in fronts, which threads that meet get otherwise.
inline Config fronted_config(std::size_t unit) {
  Config config = tight_config(unit);
  config.front_limit = 6 * unit;
  config.front_bytes = 24 * unit;
  config.front_always = true;
  return config;
}

}  // namespace cinch::allocator::test
