// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "allocator/core.h"
#include "tools/fake_driver.h"

namespace cinch::allocator::test {

/// Ranges of addresses, or of memory: which are used, and by which work on the device the others
/// were.
class Account {
 public:
  using Position = std::uint64_t;

  bool is_used(Position at, std::size_t bytes) const {
    const auto after = used_.lower_bound(at);
    if (after != used_.end() && after->first < at + bytes) return true;
    return after != used_.begin() && std::prev(after)->first + std::prev(after)->second > at;
  }

  /// Whether `good` is true for all work that earlier users of the range left.
  template <class Good>
  bool all_left(Position at, std::size_t bytes, const Good& good) const {
    for (auto next = first_left(at); next != left_.end() && next->first < at + bytes; ++next) {
      for (const FakeDriver::Work& work : next->second.work) {
        if (!good(work)) return false;
      }
    }
    return true;
  }

  /// Cuts the range out of what earlier users left.
  void forget(Position at, std::size_t bytes) {
    const Position end = at + bytes;
    for (auto next = first_left(at); next != left_.end() && next->first < end;) {
      const Position begin = next->first;
      const Position after = begin + next->second.bytes;
      if (after > end) left_[end] = {after - end, next->second.work};
      if (begin < at) {
        next->second.bytes = at - begin;
        ++next;
      } else {
        next = left_.erase(next);
      }
    }
  }

  void use(Position at, std::size_t bytes) {
    forget(at, bytes);
    used_.emplace(at, bytes);
  }
  void leave(Position at, std::size_t bytes, const std::vector<FakeDriver::Work>& work) {
    used_.erase(at);
    left_[at] = {bytes, work};
  }

  std::size_t used_count() const { return used_.size(); }

 private:
  struct Left {
    std::size_t bytes;
    std::vector<FakeDriver::Work> work;  // the last in each stream
  };

  // The first that ends after `at`.
  std::map<Position, Left>::const_iterator first_left(Position at) const {
    auto next = left_.upper_bound(at);
    if (next == left_.begin()) return next;
    const auto before = std::prev(next);
    return before->first + before->second.bytes > at ? before : next;
  }
  std::map<Position, Left>::iterator first_left(Position at) {
    return left_.erase(std::as_const(*this).first_left(at), std::as_const(*this).first_left(at));
  }

  std::map<Position, std::size_t> used_;
  std::map<Position, Left> left_;
};

/// An allocator under test, with a second account of what is used and of which work on the device
/// memory may not be used, and addresses not be unmapped, before. The first thing that is wrong is
/// kept in `fault`.
class Model {
 public:
  Model(const FakeDriver::Options& options, const Config& config)
      : fake(options),
        core(fake.table(), config),
        lags(options.lag != 0),
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
    std::vector<FakeDriver::Piece> memory;
  };

  void allocate(std::size_t bytes, Stream stream) {
    const Address address = core.allocate(bytes, stream, stream + 1);
    if (address == 0) {
      ++refused;
      return;
    }
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    if (addresses_.is_used(address, size)) note("a block overlaps another");
    addresses_.use(address, size);
    auto memory = fake.behind(address, size);
    for (const FakeDriver::Piece& piece : memory) {
      const Account::Position at = position(piece);
      if (memory_.is_used(at, piece.bytes)) note("two blocks share memory");
      if (!memory_.all_left(at, piece.bytes,
                            [&](const auto& work) { return fake.ordered(work, stream); })) {
        note("memory is used again too early");
      }
      memory_.use(at, piece.bytes);
    }
    const std::size_t rounded = core.size_of(address);
    requested_ += bytes;
    allocated_ += rounded;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    blocks.push_back({address, size, {fake.work(stream)}, bytes, rounded, std::move(memory)});
  }

  void use_elsewhere(std::size_t index, Stream stream) {
    Block& block = blocks[index];
    if (!core.record_stream(block.address, stream)) return;
    block.work.push_back(fake.work(stream));
  }

  void free(std::size_t index) {
    const Block block = take(index);
    if (fake.behind(block.address, block.bytes) != block.memory) note("memory in use was moved");
    if (!core.free(block.address)) note("free refused a used block");
    if (core.free(block.address)) note("free took a block twice");
    if (core.free(0)) note("free took null");
    addresses_.leave(block.address, block.bytes, block.work);
    for (const FakeDriver::Piece& piece : block.memory) {
      memory_.leave(position(piece), piece.bytes, block.work);
    }
  }

  void check() {
    std::string what;
    if (!core.verify(what)) note(what.c_str());
    const Stats stats = core.stats();
    if (stats.allocated != allocated_) note("allocated bytes miscounted");
    if (stats.requested != requested_) note("requested bytes miscounted");
    if (stats.used_blocks != addresses_.used_count()) note("used blocks miscounted");
    if (stats.allocations - stats.frees != addresses_.used_count()) {
      note("allocations or frees miscounted");
    }
    if (stats.pools[0].blocks.added + stats.pools[1].blocks.added != stats.allocations) {
      note("a pool's allocations miscounted");
    }
    // Fronts may make it seem higher.
    if (fronts_ ? stats.peak_allocated < peak_allocated_
                : stats.peak_allocated != peak_allocated_) {
      note("peak of allocated bytes wrong");
    }
    if (stats.reserved != fake.created_bytes()) note("reserved bytes miscounted");
    // What is reserved may shrink while memory is leaving.
    if (stats.leaving > stats.peak_reserved) note("more is leaving than there was");
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
  const bool lags;  // the device finishes work in its own time
  std::vector<Block> blocks;
  std::string fault;
  std::uint64_t refused = 0;

 private:
  // A place in all of the memory that ever was.
  static Account::Position position(const FakeDriver::Piece& piece) {
    return (piece.handle << 40) + piece.offset;
  }

  Block take(std::size_t index) {
    if (synchronous_) fake.complete_all();
    std::swap(blocks[index], blocks.back());
    Block block = std::move(blocks.back());
    blocks.pop_back();
    requested_ -= block.requested;
    allocated_ -= block.rounded;
    return block;
  }

  void unmapping(Address address, std::size_t bytes) {
    if (addresses_.is_used(address, bytes)) note("memory in use is unmapped");
    if (!addresses_.all_left(address, bytes, [&](const auto& work) { return fake.done(work); })) {
      note("memory is unmapped while the device works with it");
    }
    addresses_.forget(address, bytes);
  }

  const bool fronts_;
  const bool synchronous_;  // all work with a block is done before its free
  Account addresses_;
  Account memory_;
  std::size_t requested_ = 0;
  std::size_t allocated_ = 0;
  std::size_t peak_allocated_ = 0;
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
  model.fake.advance(1);
  if (kind < 450 && !full) {
    model.allocate(random_size(random, unit), stream);
    if (!model.blocks.empty() && kind < 20) model.check_accessible(model.blocks.size() - 1);
  } else if (kind < 900) {
    if (!model.blocks.empty()) model.free(pick());
  } else if (kind < 950) {
    if (!model.blocks.empty()) model.use_elsewhere(pick(), stream);
  } else if (kind < 985) {
    if (!model.lags) model.fake.complete(stream);
  } else if (kind < 990) {
    if (!model.lags) model.fake.complete_all();
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
