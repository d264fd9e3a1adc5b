// SPDX-License-Identifier: Apache-2.0
// Models of where PyTorch's allocators place memory: c10/cuda/CUDACachingAllocator.cpp of torch
// 2.11 (get_free_block, should_split, alloc_block, try_merge_blocks, find_expandable_block,
// map_block). A block that other streams use is free when their events are done; a request asks for
// that first, and waits for it before cached memory is given back.
#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/config.h"
#include "tools/replay/deferred_frees.h"
#include "tools/replay/replay.h"

namespace cinch::allocator {
namespace {

constexpr std::size_t smallest_block = 512;
constexpr std::size_t small_size = 1 * mebibyte;
constexpr std::size_t small_buffer = 2 * mebibyte;
constexpr std::size_t large_buffer = 20 * mebibyte;
constexpr std::size_t least_large_allocation = 10 * mebibyte;
constexpr std::size_t large_rounding = 2 * mebibyte;

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

struct ModelBlock {
  std::uint64_t address;
  std::size_t bytes;
  std::uint32_t stream;
  bool small;
  bool used = false;
  bool mapped = true;
  ModelBlock* previous = nullptr;
  ModelBlock* next = nullptr;
  Handle handle = 0;                              // of the segment that it begins
  std::vector<std::uint32_t> other_streams = {};  // that use it, too
};

struct BySize {
  bool operator()(const ModelBlock* a, const ModelBlock* b) const {
    return std::tie(a->stream, a->bytes, a->address) < std::tie(b->stream, b->bytes, b->address);
  }
};
using FreeBlocks = std::set<ModelBlock*, BySize>;

struct ByAddress {
  bool operator()(const ModelBlock* a, const ModelBlock* b) const {
    return a->address < b->address;
  }
};

/// What both models share: blocks linked in the order of addresses, free ones by size.
class Model : public Subject {
 public:
  explicit Model(FakeDriver& device) : driver_(device.table()), deferred_(driver_) {}

  std::uint64_t allocate(std::size_t bytes, std::uint32_t stream) override {
    bytes = std::max(round_up(bytes, smallest_block), smallest_block);
    const bool small = bytes <= small_size;
    deferred_.process(false, [this](ModelBlock* freed) { free_block(freed); });
    ModelBlock* block = find(bytes, stream, small);
    if (block == nullptr) block = make(bytes, stream, small);
    if (block == nullptr) return 0;
    if (splits(*block, bytes)) {
      add_free(cut(block, bytes));
    }
    block->used = true;
    used_[block->address] = block;
    return block->address;
  }

  void free(std::uint64_t address) override {
    const auto found = used_.find(address);
    ModelBlock* block = found->second;
    used_.erase(found);
    if (block->other_streams.empty()) return free_block(block);
    deferred_.add(block, std::exchange(block->other_streams, {}));
  }

  void record_stream(std::uint64_t address, std::uint32_t stream) override {
    ModelBlock* block = used_.at(address);
    auto& streams = block->other_streams;
    if (stream == block->stream || std::ranges::find(streams, stream) != streams.end()) return;
    streams.push_back(stream);
  }

 protected:
  /// Makes a free block of at least `bytes` that is in no set of free blocks; null when there is no
  /// memory.
  virtual ModelBlock* make(std::size_t bytes, std::uint32_t stream, bool small) = 0;
  virtual bool splits(const ModelBlock& block, std::size_t bytes) const = 0;
  /// Chooses among the free blocks from `fit`, the smallest that fits, on.
  virtual FreeBlocks::iterator prefer(const FreeBlocks&, FreeBlocks::iterator fit) const {
    return fit;
  }

  void free_block(ModelBlock* block) {
    block->used = false;
    put_back(block);
  }

  /// Waits for all blocks that other streams use. Before cached memory is given back.
  void finish_deferred() {
    deferred_.process(true, [this](ModelBlock* freed) { free_block(freed); });
  }

  ModelBlock* find(std::size_t bytes, std::uint32_t stream, bool small) {
    ModelBlock key{0, bytes, stream, small};
    const auto found = free_[small].lower_bound(&key);
    if (found == free_[small].end() || (*found)->stream != stream) return nullptr;
    ModelBlock* block = *prefer(free_[small], found);
    remove_free(block);
    return block;
  }

  ModelBlock* cut(ModelBlock* block, std::size_t bytes) {
    blocks_.push_back(*block);
    ModelBlock* rest = &blocks_.back();
    rest->address += bytes;
    rest->bytes -= bytes;
    rest->handle = 0;
    rest->previous = block;
    if (rest->next != nullptr) rest->next->previous = rest;
    block->next = rest;
    block->bytes = bytes;
    return rest;
  }

  void join(ModelBlock* block) {
    const ModelBlock* gone = block->next;
    block->bytes += gone->bytes;
    block->next = gone->next;
    if (block->next != nullptr) block->next->previous = block;
  }

  static bool joins(const ModelBlock* a, const ModelBlock* b) {
    return a != nullptr && b != nullptr && !a->used && !b->used && a->mapped == b->mapped;
  }

  /// Whether a free block holds memory that can be given back to the driver.
  virtual bool can_return(const ModelBlock& block) const = 0;

  // All free blocks are added and removed here. pre: the block is as it was when it was added
  void add_free(ModelBlock* block) {
    free_[block->small].insert(block);
    if (can_return(*block)) returnable_.insert(block);
  }
  void remove_free(ModelBlock* block) {
    free_[block->small].erase(block);
    returnable_.erase(block);
  }

  // pre: block is free and in no set; returns the block that it became
  ModelBlock* merge(ModelBlock* block) {
    if (joins(block->previous, block)) {
      block = block->previous;
      remove_free(block);
      join(block);
    }
    if (joins(block, block->next)) {
      remove_free(block->next);
      join(block);
    }
    return block;
  }

  void put_back(ModelBlock* block) { add_free(merge(block)); }

  const Driver driver_;
  FreeBlocks free_[2];  // large, small
  /// Free blocks for which can_return is true. Looked through whenever memory runs out, which may
  /// be at each allocation. What is returned leaves the set, so all looks take no longer than all
  /// frees.
  std::set<ModelBlock*, ByAddress> returnable_;
  std::list<ModelBlock> blocks_;  // all that ever were
  std::unordered_map<std::uint64_t, ModelBlock*> used_;
  DeferredFrees<ModelBlock> deferred_;
};

class NativeModel final : public Model {
 public:
  using Model::Model;

 private:
  bool splits(const ModelBlock& block, std::size_t bytes) const override {
    const std::size_t remaining = block.bytes - bytes;
    return block.small ? remaining >= smallest_block : remaining > small_size;
  }

  ModelBlock* make(std::size_t bytes, std::uint32_t stream, bool small) override {
    const std::size_t segment = small                            ? small_buffer
                                : bytes < least_large_allocation ? large_buffer
                                                                 : round_up(bytes, large_rounding);
    Handle handle = 0;
    if (driver_.create(driver_.self, segment, &handle) != Status::ok) {
      release_cached();
      if (driver_.create(driver_.self, segment, &handle) != Status::ok) return nullptr;
    }
    ModelBlock block{next_address_, segment, stream, small};
    block.handle = handle;
    next_address_ += segment + large_rounding;
    blocks_.push_back(block);
    return &blocks_.back();
  }

  bool can_return(const ModelBlock& block) const override {
    return block.previous == nullptr && block.next == nullptr;
  }

  void release_cached() {
    finish_deferred();
    while (!returnable_.empty()) {
      ModelBlock* block = *returnable_.begin();
      remove_free(block);
      driver_.release(driver_.self, block->handle);
    }
  }

  std::uint64_t next_address_ = std::uint64_t{1} << 40;
};

class ExpandableModel final : public Model {
 public:
  using Model::Model;

 private:
  /// The range of one stream and size class.
  struct Segment {
    std::uint64_t address = 0;
    std::set<ModelBlock*, ByAddress> unmapped;
    std::map<std::uint64_t, Handle> pages;  // by address
  };
  using Key = std::pair<std::uint32_t, bool>;

  static constexpr std::size_t segment_bytes = std::size_t{1} << 40;

  // A block that can grow counts with its possible size: it is left for requests that need that.
  FreeBlocks::iterator prefer(const FreeBlocks& among, FreeBlocks::iterator fit) const override {
    const auto could_be = [](const ModelBlock* block) {
      const bool grows = block->next != nullptr && !block->next->mapped;
      return block->bytes + (grows ? block->next->bytes : 0);
    };
    for (auto next = std::next(fit);
         ((*fit)->previous != nullptr || (*fit)->next != nullptr) && next != among.end() &&
         (*next)->stream == (*fit)->stream && could_be(*next) < could_be(*fit);
         ++next) {
      fit = next;
    }
    return fit;
  }

  static std::size_t page_of(bool small) { return small ? small_buffer : large_buffer; }

  bool splits(const ModelBlock& block, std::size_t bytes) const override {
    return block.bytes - bytes >= smallest_block;
  }

  ModelBlock* make(std::size_t bytes, std::uint32_t stream, bool small) override {
    if (ModelBlock* block = expand(bytes, stream, small); block != nullptr) return block;
    unmap_cached();
    if (ModelBlock* block = find(bytes, stream, small); block != nullptr) return block;
    return expand(bytes, stream, small);
  }

  ModelBlock* expand(std::size_t bytes, std::uint32_t stream, bool small) {
    Segment& segment = segment_of(stream, small);
    ModelBlock* candidate = nullptr;
    for (ModelBlock* block : segment.unmapped) {
      ModelBlock* first =
          block->previous != nullptr && !block->previous->used ? block->previous : block;
      std::size_t there = 0;
      for (const ModelBlock* b = first; b != nullptr && !b->used && there < bytes; b = b->next) {
        there += b->bytes;
      }
      if (there >= bytes) {
        candidate = first;
        break;
      }
    }
    if (candidate == nullptr) return nullptr;
    if (!candidate->mapped) {
      candidate = map(segment, candidate, std::min(candidate->bytes, bytes));
      if (candidate == nullptr) return nullptr;
    }
    remove_free(candidate);
    while (candidate->bytes < bytes) {
      ModelBlock* next = candidate->next;
      if (!next->mapped) {
        next = map(segment, next, std::min(bytes - candidate->bytes, next->bytes));
        if (next == nullptr) {
          put_back(candidate);
          return nullptr;
        }
        // map() has added it to the set, perhaps joined with the free block after it.
      }
      remove_free(next);
      join(candidate);
    }
    return candidate;
  }

  // Maps the beginning of an unmapped block, in whole pages. The mapped block is in the free set,
  // joined with a free one after it. Null when there is no memory.
  ModelBlock* map(Segment& segment, ModelBlock* block, std::size_t bytes) {
    const std::size_t page = page_of(block->small);
    const std::size_t want = std::min(round_up(bytes, page), block->bytes);
    std::vector<Handle> handles(want / page);
    for (std::size_t i = 0; i < handles.size(); ++i) {
      if (driver_.create(driver_.self, page, &handles[i]) == Status::ok) continue;
      while (i-- > 0) driver_.release(driver_.self, handles[i]);
      return nullptr;
    }
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const std::uint64_t at = block->address + i * page;
      driver_.map(driver_.self, at, page, handles[i]);
      segment.pages.emplace(at, handles[i]);
    }
    driver_.set_access(driver_.self, block->address, want);
    segment.unmapped.erase(block);
    if (want < block->bytes) segment.unmapped.insert(cut(block, want));
    block->mapped = true;
    // Not joined with the block before: the caller grows that one.
    if (joins(block, block->next)) {
      remove_free(block->next);
      join(block);
    }
    add_free(block);
    return block;
  }

  Segment& segment_of(std::uint32_t stream, bool small) {
    Segment& segment = segments_[{stream, small}];
    if (segment.address == 0) {
      Address address = 0;
      if (driver_.reserve(driver_.self, segment_bytes / large_buffer * large_buffer, &address) ==
          Status::ok) {
        segment.address = address;
        ModelBlock block{address, segment_bytes / large_buffer * large_buffer, stream, small};
        block.mapped = false;
        blocks_.push_back(block);
        segment.unmapped.insert(&blocks_.back());
      }
    }
    return segment;
  }

  /// The pages that lie wholly in a block, as a range of addresses; empty when there are none.
  std::pair<std::uint64_t, std::uint64_t> whole_pages(const ModelBlock& block,
                                                      const Segment& segment) const {
    const std::size_t page = page_of(block.small);
    const std::uint64_t begin = block.address - segment.address;
    return {segment.address + round_up(begin, page),
            segment.address + (begin + block.bytes) / page * page};
  }

  bool can_return(const ModelBlock& block) const override {
    const auto [from, to] = whole_pages(block, segments_.at({block.stream, block.small}));
    return from < to;
  }

  // Unmaps all pages that are wholly free.
  void unmap_cached() {
    finish_deferred();
    while (!returnable_.empty()) {
      ModelBlock* block = *returnable_.begin();
      remove_free(block);
      Segment& segment = segments_.at({block->stream, block->small});
      const auto [from, to] = whole_pages(*block, segment);
      ModelBlock* middle = block;
      if (from > block->address) {
        middle = cut(block, from - block->address);
        add_free(block);
      }
      if (to < middle->address + middle->bytes) add_free(cut(middle, to - middle->address));
      const std::size_t page = page_of(block->small);
      for (std::uint64_t at = from; at < to; at += page) {
        const Handle handle = segment.pages.at(at);
        driver_.unmap(driver_.self, at, page, handle);
        driver_.release(driver_.self, handle);
        segment.pages.erase(at);
      }
      middle->mapped = false;
      if (joins(middle->previous, middle)) {
        middle = middle->previous;
        segment.unmapped.erase(middle);
        join(middle);
      }
      if (joins(middle, middle->next)) {
        segment.unmapped.erase(middle->next);
        join(middle);
      }
      segment.unmapped.insert(middle);
    }
  }

  std::map<Key, Segment> segments_;
};

}  // namespace

std::unique_ptr<Subject> native_subject(FakeDriver& device) {
  return std::make_unique<NativeModel>(device);
}

std::unique_ptr<Subject> expandable_subject(FakeDriver& device) {
  return std::make_unique<ExpandableModel>(device);
}

}  // namespace cinch::allocator
