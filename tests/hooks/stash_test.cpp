// SPDX-License-Identifier: Apache-2.0
//
// The stash driven through HeldTensor, as autograd does it, without Python and without the preload.

#include "hooks/torch/stash.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hooks/torch/fork.h"
#include "hooks/torch/held_tensor.h"

namespace cinch::hooks {
namespace {

// Every float that is taken goes through `raw`: out of its storage, and back into another.
Stash& lossless_stash() {
  static const bool started = [] {
    auto settings = policy::parse_settings(
        R"({"version": 1, "policy": "lossless", "min_bytes": 0,
            "rules": [{"match": {"op": "*"}, "codec": {"name": "raw"}}]})",
        "test");
    start_stash(std::get<policy::Settings>(std::move(settings)));
    return true;
  }();
  EXPECT_TRUE(started);
  return stash();
}

class StashTest : public testing::Test {
 protected:
  void SetUp() override { lossless_stash(); }
  void TearDown() override { EXPECT_EQ(stash().bytes(), 0u); }

  static std::unique_ptr<HeldTensor> pack(const at::Tensor& tensor, bool is_output = false) {
    static Site site(/*shared=*/true);
    auto held = std::make_unique<HeldTensor>(site, is_output, std::array<std::int64_t, 3>{});
    const at::NoGradGuard no_grad;
    held->call_pack_hook(tensor);
    return held;
  }

  // Saving something else polls what is pending.
  static void poll() { pack(at::randn({64})); }
};

TEST_F(StashTest, EncodesOnlyWhatNobodyElseOwns) {
  at::Tensor x = at::randn({100, 100});
  const void* memory = x.data_ptr();
  const auto held = pack(x);
  poll();
  EXPECT_EQ(held->call_unpack_hook().data_ptr(), memory);  // still the program's own memory
  const at::Tensor expected = x.clone();
  x.reset();
  poll();
  EXPECT_TRUE(held->call_unpack_hook().equal(expected));
}

TEST_F(StashTest, UnpackIsIdempotentAndSharesWhatIsAlive) {
  at::Tensor x = at::randn({64, 64});
  const at::Tensor expected = x.clone();
  const auto held = pack(x);
  x.reset();
  poll();
  const at::Tensor first = held->call_unpack_hook();
  const at::Tensor second = held->call_unpack_hook();
  EXPECT_EQ(first.data_ptr(), second.data_ptr());
  EXPECT_TRUE(first.equal(expected));
}

TEST_F(StashTest, ViewsOfOneStorageAreOneEntryWithTheirOwnGeometry) {
  at::Tensor x = at::randn({30, 30});
  const at::Tensor expected = x.clone();
  const auto whole = pack(x);
  const auto transposed = pack(x.t());
  const auto slice = pack(x.slice(1, 3, 20, 2));
  EXPECT_EQ(stash().bytes(), expected.nbytes());
  x.reset();
  poll();
  EXPECT_EQ(stash().bytes(), expected.nbytes());
  const at::Tensor a = whole->call_unpack_hook();
  const at::Tensor b = transposed->call_unpack_hook();
  EXPECT_EQ(a.storage().unsafeGetStorageImpl(), b.storage().unsafeGetStorageImpl());
  EXPECT_TRUE(a.equal(expected));
  EXPECT_TRUE(b.equal(expected.t()));
  EXPECT_EQ(b.strides(), expected.t().strides());
  EXPECT_TRUE(slice->call_unpack_hook().equal(expected.slice(1, 3, 20, 2)));
}

TEST_F(StashTest, ChannelsLastKeepsItsStrides) {
  at::Tensor x = at::randn({2, 8, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor expected = x.clone();
  const auto held = pack(x);
  x.reset();
  poll();
  const at::Tensor back = held->call_unpack_hook();
  EXPECT_TRUE(back.equal(expected));
  EXPECT_EQ(back.strides(), expected.strides());
}

TEST_F(StashTest, ModifiedInPlaceIsRefusedInPyTorchsWords) {
  at::Tensor leaf = at::randn({3, 4}).requires_grad_();
  at::Tensor x = leaf * 2;
  const auto held = pack(x);
  x.add_(1);
  try {
    held->call_unpack_hook();
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_EQ(
        error.msg(),
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [CPUFloatType [3, 4]], which is output 0 of AddBackward1, is at version 1; "
        "expected version 0 instead. Hint: enable anomaly detection to find the operation that "
        "failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, "
        "check_nan=False).");
  }
}

// What autograd gets from a torch whose SavedVariable constructor can't be interposed.
TEST_F(StashTest, UnjudgedTensorsAreTakenOrHeldAsTheyAre) {
  const auto pack_unjudged = [](const at::Tensor& tensor) {
    auto held = std::make_unique<HeldTensor>();
    const at::NoGradGuard no_grad;
    held->call_pack_hook(tensor);
    return held;
  };
  at::Tensor x = at::ones({50, 50});
  const auto taken = pack_unjudged(x);
  const auto declined = pack_unjudged(at::ones({3}, at::kDouble));
  EXPECT_EQ(stash().bytes(), 50u * 50 * 4);
  x.reset();
  poll();
  EXPECT_TRUE(taken->call_unpack_hook().equal(at::ones({50, 50})));
  EXPECT_TRUE(declined->call_unpack_hook().equal(at::ones({3}, at::kDouble)));
}

TEST_F(StashTest, ReleasedWhilePendingLeavesNothing) {
  for (int i = 0; i < 100; ++i) {
    at::Tensor x = at::randn({1000});
    auto first = pack(x);
    auto second = pack(x.view({10, 100}));
    first.reset();
    x.reset();
    poll();
  }
}

TEST_F(StashTest, ManyThreadsSaveReadAndRelease) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        at::Tensor x = at::full({1 + i, 37}, t * 1000 + i);
        const at::Tensor expected = x.clone();
        const auto held = pack(x);
        const auto view = pack(x.t());
        if (i % 3 != 0) x.reset();
        poll();
        EXPECT_TRUE(held->call_unpack_hook().equal(expected));
        EXPECT_TRUE(view->call_unpack_hook().equal(expected.t()));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(StashTest, OneEntryReadByManyThreads) {
  at::Tensor x = at::randn({200, 200});
  const at::Tensor expected = x.clone();
  const auto held = pack(x);
  x.reset();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        poll();
        EXPECT_TRUE(held->call_unpack_hook().equal(expected));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// A fork while another thread encodes and decodes: the child's locks are free, and it can go on.
// The child runs no operator of PyTorch's, whose own locks the fork may have caught.
TEST_F(StashTest, ForkedChildGoesOn) {
  static const bool installed = [] {
    install_fork_handlers([] { stash().begin_in_child(); });
    return true;
  }();
  ASSERT_TRUE(installed);
  std::atomic<bool> done{false};
  std::thread busy([&done] {
    while (!done) {
      const auto held = pack(at::ones({300, 300}));
      poll();
      held->call_unpack_hook();
    }
  });
  for (int i = 0; i < 20; ++i) {
    at::Tensor x = at::ones({100, 100});
    const at::Tensor another = at::ones({64});
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      const auto held = pack(x);
      x.reset();
      pack(another);
      const at::Tensor back = held->call_unpack_hook();
      const auto* values = static_cast<const float*>(back.data_ptr());
      _exit(std::all_of(values, values + 100 * 100, [](float v) { return v == 1; }) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done = true;
  busy.join();
}

}  // namespace
}  // namespace cinch::hooks
