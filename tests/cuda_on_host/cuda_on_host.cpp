// SPDX-License-Identifier: Apache-2.0
#include "cuda_on_host.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define CINCH_FIBERS_UNDER_ASAN 1
#else
#define CINCH_FIBERS_UNDER_ASAN 0
#endif

namespace cinch::cuda_on_host {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr unsigned kLanes = 32;

enum class State : std::uint8_t { ready, at_block_barrier, at_warp_operation, done };

struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack;
  State state = State::done;
  std::uint32_t mask = 0;
  std::uint64_t value = 0;
  unsigned from = 0;
  Exchanged exchanged = {};
  void* fake_stack = nullptr;
};

std::uint64_t schedule_seed = 0;

unsigned block_threads = [] {
  const char* const wanted = std::getenv("CUDA_ON_HOST_BLOCK_THREADS");
  return wanted == nullptr ? 1U : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
}();

/// Decides where this thread of the host gives way; null where blocks run one after another.
thread_local std::mt19937_64* yields = nullptr;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "cuda_on_host: block %u: %s\n", identity.block.x, what);
  std::abort();
}

/// Runs one block at a time. All blocks of a launch reuse the fibers' stacks.
class Block {
 public:
  explicit Block(const std::function<void()>& kernel) : kernel_(kernel) {}

  void run(unsigned threads, std::size_t shared_bytes) {
    // Exactly `shared_bytes` so that AddressSanitizer finds overruns, and filled with garbage.
    shared_.reset(new (std::align_val_t{16}) std::byte[shared_bytes]);
    std::memset(shared_.get(), 0xCD, shared_bytes);
    if (fibers_.size() < threads) fibers_.resize(threads);
    threads_ = threads;
    for (unsigned t = 0; t < threads; ++t) start(t);
    std::vector<unsigned> order(threads);
    std::iota(order.begin(), order.end(), 0U);
    std::mt19937_64 random(schedule_seed);
    while (true) {
      if (schedule_seed != 0) std::shuffle(order.begin(), order.end(), random);
      bool ran = false;
      for (const unsigned t : order) {
        if (fibers_[t].state != State::ready) continue;
        resume(t);
        ran = true;
      }
      if (ran) continue;
      if (finish_warp_operations() || finish_barrier()) continue;
      break;
    }
  }

  void wait(State state) {
    Fiber& fiber = fibers_[current_];
    fiber.state = state;
    leave(fiber);
  }

  Exchanged exchange(std::uint32_t mask, std::uint64_t value, unsigned from) {
    Fiber& fiber = fibers_[current_];
    if ((mask >> (current_ % kLanes) & 1U) == 0) fail("a lane is not in its own mask");
    fiber.mask = mask;
    fiber.value = value;
    fiber.from = from;
    wait(State::at_warp_operation);
    return fibers_[current_].exchanged;
  }

  std::byte* shared() { return shared_.get(); }

 private:
  struct AlignedDelete {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{16}); }
  };

  static void enter();

  void start(unsigned t) {
    Fiber& fiber = fibers_[t];
    if (!fiber.stack) fiber.stack.reset(new std::byte[kStackBytes]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Block::enter, 0);
    fiber.state = State::ready;
    fiber.fake_stack = nullptr;
  }

  void resume(unsigned t) {
    current_ = t;
    identity.thread = {t, 0, 0};
#if CINCH_FIBERS_UNDER_ASAN
    __sanitizer_start_switch_fiber(&scheduler_fake_stack_, fibers_[t].stack.get(), kStackBytes);
#endif
    swapcontext(&scheduler_, &fibers_[t].context);
#if CINCH_FIBERS_UNDER_ASAN
    __sanitizer_finish_switch_fiber(scheduler_fake_stack_, nullptr, nullptr);
#endif
  }

  void leave(Fiber& fiber) {
#if CINCH_FIBERS_UNDER_ASAN
    const bool gone = fiber.state == State::done;
    __sanitizer_start_switch_fiber(gone ? nullptr : &fiber.fake_stack, scheduler_stack_,
                                   scheduler_stack_bytes_);
#endif
    swapcontext(&fiber.context, &scheduler_);
#if CINCH_FIBERS_UNDER_ASAN
    __sanitizer_finish_switch_fiber(fiber.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  }

  /// Lets lanes continue once all lanes of their mask have arrived.
  bool finish_warp_operations() {
    bool any = false;
    for (unsigned t = 0; t < threads_; ++t) {
      if (fibers_[t].state != State::at_warp_operation) continue;
      const std::uint32_t mask = fibers_[t].mask;
      const unsigned warp = t / kLanes * kLanes;
      bool whole = true;
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1U) == 0) continue;
        if (warp + lane >= threads_) fail("a warp operation's mask names lanes beyond the block");
        const Fiber& other = fibers_[warp + lane];
        whole = whole && other.state == State::at_warp_operation && other.mask == mask;
      }
      if (!whole) continue;
      std::uint32_t ballot = 0;
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1U) != 0 && fibers_[warp + lane].value != 0) ballot |= 1U << lane;
      }
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1U) == 0) continue;
        Fiber& fiber = fibers_[warp + lane];
        const bool valid = (mask >> fiber.from & 1U) != 0;
        fiber.exchanged = {valid ? fibers_[warp + fiber.from].value : fiber.value, ballot};
        fiber.state = State::ready;
      }
      any = true;
    }
    return any;
  }

  bool finish_barrier() {
    bool any = false;
    for (unsigned t = 0; t < threads_; ++t) {
      if (fibers_[t].state == State::at_warp_operation) {
        fail("a warp operation waits for a lane that never comes");
      }
      if (fibers_[t].state == State::at_block_barrier) {
        fibers_[t].state = State::ready;
        any = true;
      }
    }
    return any;
  }

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  std::unique_ptr<std::byte[], AlignedDelete> shared_;
  ucontext_t scheduler_ = {};
  unsigned threads_ = 0;
  unsigned current_ = 0;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

thread_local Block* running = nullptr;

void Block::enter() {
  Block& block = *running;
#if CINCH_FIBERS_UNDER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_stack_, &block.scheduler_stack_bytes_);
#endif
  block.kernel_();
  block.wait(State::done);
}

}  // namespace

void run(unsigned blocks, unsigned threads, std::size_t shared_bytes,
         const std::function<void()>& kernel) {
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  std::atomic<unsigned> next{0};
  const auto run_blocks = [&] {
    Block block(kernel);
    running = &block;
    identity.block_size = {threads, 1, 1};
    identity.grid_size = {blocks, 1, 1};
    for (unsigned b = next++; b < blocks; b = next++) {
      identity.block = {order[b], 0, 0};
      block.run(threads, shared_bytes);
    }
    running = nullptr;
  };
  if (block_threads <= 1 || blocks == 1) return run_blocks();
  static std::atomic<std::uint64_t> launches{0};
  const std::uint64_t seed = schedule_seed + ++launches;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  std::vector<std::thread> hosts;
  for (unsigned host = 0; host < std::min(block_threads, blocks); ++host) {
    hosts.emplace_back([&, host] {
      std::mt19937_64 random(seed * 64 + host);
      yields = &random;
      run_blocks();
    });
  }
  for (std::thread& host : hosts) host.join();
}

void set_block_threads(unsigned threads) {
  block_threads = threads;
}

void may_yield() {
  constexpr unsigned one_in = 64;
  if (yields != nullptr && (*yields)() % one_in == 0) std::this_thread::yield();
}

void set_schedule(std::uint64_t seed) {
  schedule_seed = seed;
}

Kernels& kernels() {
  static Kernels known;
  return known;
}

std::byte* dynamic_shared() {
  return running->shared();
}

void block_barrier() {
  running->wait(State::at_block_barrier);
}

Exchanged exchange(std::uint32_t mask, std::uint64_t value, unsigned from) {
  may_yield();
  return running->exchange(mask, value, from);
}

}  // namespace cinch::cuda_on_host
