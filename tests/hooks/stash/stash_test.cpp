// SPDX-License-Identifier: Apache-2.0
//
// The stash driven through HeldTensor, as autograd does it, without Python and without the preload.

#include "hooks/torch/stash/stash.h"

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

#include "hooks/torch/autograd/held/held_tensor.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/program/autograd_node.h"
#include "hooks/torch/stash/entry/entry_work.h"

namespace cinch::hooks {
namespace {

/// A stash of its own for each test. The old ones stay, as in a process whose graphs outlive all.
Stash& begin_stash(const std::string& stream, const std::string& codec,
                   const std::string& more = "") {
  static auto& all = *new std::vector<Stash*>;
  auto settings = policy::parse_settings(
      R"({"version": 1, "policy": "division", "min_bytes": 0, "stream": ")" + stream +
          R"(", "preset_rules": false, "rules": [{"match": {"op": "*"}, "codec": )" + codec + "}]" +
          more + "}",
      "test");
  if (const auto* error = std::get_if<policy::PolicyError>(&settings)) {
    ADD_FAILURE() << error->to_string();
  }
  all.push_back(&start_stash(std::get<policy::Settings>(std::move(settings))));
  return *all.back();
}

class StashTest : public testing::TestWithParam<const char*> {
 protected:
  // Every float that is taken goes through `raw`: out of its storage, and back into another.
  void SetUp() override { begin_stash(GetParam(), R"({"name": "raw"})", R"(, "raw_window": 0)"); }
  void TearDown() override {
    // What was released may still be on its way through the side thread.
    for (int i = 0; i < 5000 && stash().lists().bytes() != 0; ++i) usleep(1000);
    EXPECT_EQ(stash().lists().bytes(), 0u);
    stash().side().stop();
  }

  static std::unique_ptr<HeldTensor> pack(const at::Tensor& tensor, bool is_output = false) {
    static Site site(Site::Kind::many);
    auto held = std::make_unique<HeldTensor>(site, is_output);
    const at::NoGradGuard no_grad;
    held->call_pack_hook(tensor);
    return held;
  }

  // Saving something else polls what is pending.
  static void poll() { pack(at::ones({64})); }
};

TEST_P(StashTest, EncodesOnlyWhatNobodyElseOwns) {
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

TEST_P(StashTest, UnpackIsIdempotentAndSharesWhatIsAlive) {
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

TEST_P(StashTest, ViewsOfOneStorageAreOneEntryWithTheirOwnGeometry) {
  at::Tensor x = at::randn({30, 30});
  const at::Tensor expected = x.clone();
  const auto whole = pack(x);
  const auto transposed = pack(x.t());
  const auto slice = pack(x.slice(1, 3, 20, 2));
  EXPECT_EQ(stash().lists().bytes(), expected.nbytes());
  x.reset();
  poll();
  EXPECT_EQ(stash().lists().bytes(), expected.nbytes());
  const at::Tensor a = whole->call_unpack_hook();
  const at::Tensor b = transposed->call_unpack_hook();
  EXPECT_EQ(a.storage().unsafeGetStorageImpl(), b.storage().unsafeGetStorageImpl());
  EXPECT_TRUE(a.equal(expected));
  EXPECT_TRUE(b.equal(expected.t()));
  EXPECT_EQ(b.strides(), expected.t().strides());
  EXPECT_TRUE(slice->call_unpack_hook().equal(expected.slice(1, 3, 20, 2)));
}

TEST_P(StashTest, ComplexNumbersAndTheirLazyConjugatesShareAnEntry) {
  for (const auto type : {at::kComplexFloat, at::kComplexDouble}) {
    at::Tensor x = at::randn({30, 40}, type);
    const at::Tensor expected = x.clone();
    const auto whole = pack(x);
    const auto conjugate = pack(x.conj());
    const auto adjoint = pack(x.t().conj());
    const auto parts = pack(at::view_as_real(x));
    EXPECT_EQ(stash().lists().bytes(), expected.nbytes());
    x.reset();
    poll();
    EXPECT_FALSE(whole->call_unpack_hook().is_conj());
    EXPECT_TRUE(whole->call_unpack_hook().equal(expected));
    EXPECT_TRUE(conjugate->call_unpack_hook().is_conj());
    EXPECT_TRUE(conjugate->call_unpack_hook().equal(expected.conj()));
    EXPECT_TRUE(adjoint->call_unpack_hook().equal(expected.conj().t()));
    EXPECT_EQ(adjoint->call_unpack_hook().strides(), expected.t().strides());
    EXPECT_TRUE(parts->call_unpack_hook().equal(at::view_as_real(expected)));
  }
}

TEST_P(StashTest, AnotherPolicyWaitsUntilNothingIsHeld) {
  static std::string told;
  told.clear();
  at::Tensor x = at::randn({64, 64});
  const at::Tensor expected = x.clone();
  auto held = pack(x);
  x.reset();
  const std::string text = R"({"version": 1, "policy": "lossless", "min_bytes": 64, "stream": ")" +
                           std::string(GetParam()) + "\"}";
  stash().policy().change(std::get<policy::Settings>(policy::parse_settings(text, "other")),
                          [](const std::string& words) { told = words; });
  poll();
  EXPECT_EQ(stash().settings().name, "test");
  EXPECT_EQ(told, "");
  EXPECT_TRUE(held->call_unpack_hook().equal(expected));
  held.reset();
  for (int i = 0; i < 5000 && stash().lists().bytes() != 0; ++i) usleep(1000);
  poll();
  EXPECT_EQ(stash().settings().name, "other");
  EXPECT_EQ(told, "test -> other");
  EXPECT_EQ(stash().settings().min_bytes, 64u);
  held = pack(expected);
  EXPECT_TRUE(held->call_unpack_hook().equal(expected));
}

TEST_P(StashTest, WhilePausedNothingIsTaken) {
  stash().policy().pause(true);
  EXPECT_EQ(stash().judge(at::randn({64, 64}), true, false), Verdict::paused);
  stash().policy().pause(false);
  EXPECT_EQ(stash().judge(at::randn({64, 64}), true, false), Verdict::wanted);
}

TEST_P(StashTest, ChannelsLastKeepsItsStrides) {
  at::Tensor x = at::randn({2, 8, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor expected = x.clone();
  const auto held = pack(x);
  x.reset();
  poll();
  const at::Tensor back = held->call_unpack_hook();
  EXPECT_TRUE(back.equal(expected));
  EXPECT_EQ(back.strides(), expected.strides());
}

// Gives `tensor`'s storage more memory, as x.data.resize_() does in Python.
void grow(const at::Tensor& tensor) {
  tensor.variable_data().resize_({4 * tensor.numel()});
}

TEST_P(StashTest, AStorageThatWasResizedIsKeptAsItIs) {
  at::Tensor x = at::randn({64, 64});
  const at::Tensor expected = x.clone();
  const auto held = pack(x);
  grow(x);
  const void* memory = x.data_ptr();
  x.reset();
  poll();
  const at::Tensor back = held->call_unpack_hook();
  EXPECT_EQ(back.data_ptr(), memory);
  EXPECT_TRUE(back.equal(expected));
}

TEST_P(StashTest, AStorageThatWasEmptiedIsNotRead) {
  at::Tensor x = at::randn({512, 512});
  const auto held = pack(x);
  c10::StorageImpl& storage = *x.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, at::kCPU));
  storage.set_nbytes(0);
  x.reset();
  poll();
  EXPECT_EQ(held->call_unpack_hook().storage().nbytes(), 0u);
}

TEST_P(StashTest, AStorageThatWasResizedBetweenTwoSavesIsTwoEntries) {
  at::Tensor x = at::randn({64, 64});
  const at::Tensor expected = x.clone();
  auto before = pack(x);
  grow(x);
  at::Tensor all = x.variable_data().as_strided({256, 64}, {64, 1});
  all.slice(0, 64).fill_(7);
  const at::Tensor expected_all = all.clone();
  const auto after = pack(all);
  EXPECT_EQ(stash().lists().bytes(), expected.nbytes() + expected_all.nbytes());
  x.reset();
  all.reset();
  poll();
  EXPECT_TRUE(before->call_unpack_hook().equal(expected));
  EXPECT_TRUE(after->call_unpack_hook().equal(expected_all));
  before.reset();
  poll();  // the storage is the second entry's alone, which may be encoded
  EXPECT_TRUE(after->call_unpack_hook().equal(expected_all));
}

TEST_P(StashTest, AnInputIsReadAsTheProgramMadeIt) {
  at::Tensor x = at::randn({64, 64});
  const auto held = pack(x);
  x.set_data(at::full({32, 32}, 3.0F));
  poll();  // encodes the memory that x had
  EXPECT_TRUE(held->call_unpack_hook().equal(at::full({32, 32}, 3.0F)));
}

TEST_P(StashTest, AnOutputIsReadAsItWas) {
  at::Tensor x = at::randn({64, 64});
  const at::Tensor expected = x.clone();
  const auto held = pack(x, /*is_output=*/true);
  x.set_data(at::empty({1}));
  poll();
  EXPECT_TRUE(held->call_unpack_hook().equal(expected));
}

TEST_P(StashTest, ModifiedInPlaceIsRefusedInPyTorchsWords) {
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
        "operation: [CPUFloatType [3, 4]], which is output 0 of " +
            name_in_errors(*x.grad_fn()) +
            ", is at version 1; expected version 0 instead. Hint: enable anomaly detection to find "
            "the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False).");
  }
}

// What autograd gets from a torch whose SavedVariable constructor can't be interposed.
TEST_P(StashTest, UnjudgedTensorsAreTakenOrHeldAsTheyAre) {
  const auto pack_unjudged = [](const at::Tensor& tensor) {
    auto held = std::make_unique<HeldTensor>();
    const at::NoGradGuard no_grad;
    held->call_pack_hook(tensor);
    return held;
  };
  at::Tensor x = at::ones({50, 50});
  const auto taken = pack_unjudged(x);
  const auto declined = pack_unjudged(at::ones({3}, at::kChar));
  EXPECT_EQ(stash().lists().bytes(), 50u * 50 * 4);
  x.reset();
  poll();
  EXPECT_TRUE(taken->call_unpack_hook().equal(at::ones({50, 50})));
  EXPECT_TRUE(declined->call_unpack_hook().equal(at::ones({3}, at::kChar)));
}

TEST_P(StashTest, ReleasedWhilePendingLeavesNothing) {
  for (int i = 0; i < 100; ++i) {
    at::Tensor x = at::randn({1000});
    auto first = pack(x);
    auto second = pack(x.view({10, 100}));
    first.reset();
    x.reset();
    poll();
  }
}

TEST_P(StashTest, ManyThreadsSaveReadAndRelease) {
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

TEST_P(StashTest, OneEntryReadByManyThreads) {
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
TEST_P(StashTest, ForkedChildGoesOn) {
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

INSTANTIATE_TEST_SUITE_P(Streams, StashTest, testing::Values("current", "side"),
                         [](const auto& info) { return std::string(info.param); });

class CompressingStashTest : public StashTest {
 protected:
  void SetUp() override {}

  struct Packed {
    std::unique_ptr<HeldTensor> held;
    const void* memory;
    at::Tensor exact;
  };
  // Saves tensors one after another, each given up by the program at once.
  static std::vector<Packed> pack_many(int count) {
    std::vector<Packed> all;
    at::manual_seed(1);
    for (int i = 0; i < count; ++i) {
      at::Tensor x = at::randn({64, 256});
      const void* memory = x.data_ptr();
      at::Tensor exact = x.clone();
      all.push_back({pack(x), memory, std::move(exact)});
    }
    return all;
  }
};

TEST_P(CompressingStashTest, TheNewestStayRawWithinTheWindow) {
  begin_stash(GetParam(), R"({"name": "group_quant", "bits": 8})", R"(, "raw_window": 0.5)");
  auto all = pack_many(20);
  // 20 entries need about 5 times one's bytes, of which half may stay raw: 2 entries, besides the
  // last, which is the one that is read.
  const at::Tensor last = all[19].held->call_unpack_hook();
  EXPECT_EQ(last.data_ptr(), all[19].memory);
  EXPECT_EQ(all[18].held->call_unpack_hook().data_ptr(), all[18].memory);
  EXPECT_FALSE(all[0].held->call_unpack_hook().equal(all[0].exact));
  EXPECT_TRUE(at::allclose(all[0].held->call_unpack_hook(), all[0].exact, 0, 0.05));
}

TEST_P(CompressingStashTest, EncodesEarlyWhenAskedForMemory) {
  begin_stash(GetParam(), R"({"name": "group_quant", "bits": 8})", R"(, "raw_window": 1)");
  auto all = pack_many(20);
  for (int i = 0; i < 5000 && stash().lists().bytes() > 11 * all[0].exact.nbytes(); ++i)
    usleep(1000);
  const std::size_t before = stash().lists().bytes();
  EXPECT_GT(before, 6 * all[0].exact.nbytes()) << "several are raw";
  const std::size_t one = stash().rescue().make_room(Holding::host, 1);
  const std::size_t all_others = stash().rescue().make_room(Holding::host, SIZE_MAX);
  // What the side thread encodes meanwhile counts as well.
  if (std::string_view(GetParam()) == "current") {
    EXPECT_GT(one, 0u);
    EXPECT_LT(one, 2 * all[0].exact.nbytes())
        << "no more than was asked for, and the last one saved";
    EXPECT_GT(all_others, one);
    EXPECT_EQ(stash().rescue().make_room(Holding::host, SIZE_MAX), 0u) << "there is nothing left";
  }
  for (int i = 0; i < 5000 && stash().lists().bytes() >= 6 * all[0].exact.nbytes(); ++i)
    usleep(1000);
  EXPECT_LT(stash().lists().bytes(), 6 * all[0].exact.nbytes());
  for (const auto& each : all) {
    EXPECT_TRUE(at::allclose(each.held->call_unpack_hook(), each.exact, 0, 0.05));
  }
}

TEST_P(CompressingStashTest, WhatGetsNoSmallerIsKept) {
  begin_stash(GetParam(), R"({"name": "exponent_pack"})", R"(, "raw_window": 0)");
  // Random bits: nothing to split off.
  at::Tensor noise = at::randint(0, 256, {4096}, at::kByte).view(at::kFloat);
  const at::Tensor exact = noise.clone();
  const void* memory = noise.data_ptr();
  const auto held = pack(noise);
  noise.reset();
  poll();
  EXPECT_EQ(held->call_unpack_hook().data_ptr(), memory);
  EXPECT_LE(stash().lists().bytes(), exact.nbytes());
}

TEST_P(CompressingStashTest, ReadsAgainAndAgainInAnyOrder) {
  begin_stash(GetParam(), R"({"name": "group_quant", "bits": 8})");
  for (int step = 0; step < 6; ++step) {
    auto all = pack_many(12);
    for (int i = 11; i >= 0; --i) {
      // Decoded ahead in the order of the step before, rightly or wrongly.
      const auto& one = all[static_cast<std::size_t>(step < 3 ? i : (i * 5) % 12)];
      EXPECT_TRUE(at::allclose(one.held->call_unpack_hook(), one.exact, 0, 0.05));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, CompressingStashTest, testing::Values("current", "side"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Streams, GiveTheSameBits) {
  const auto run = [](const char* stream) {
    Stash& used = begin_stash(stream, R"({"name": "group_quant", "bits": 2})");
    std::vector<at::Tensor> results;
    for (int step = 0; step < 3; ++step) {
      at::manual_seed(step);
      std::vector<std::unique_ptr<HeldTensor>> all;
      for (int i = 0; i < 10; ++i) {
        static Site site(Site::Kind::many);
        all.push_back(std::make_unique<HeldTensor>(site, false));
        all.back()->call_pack_hook(at::randn({8 + i, 512}));
      }
      while (!all.empty()) {
        results.push_back(all.back()->call_unpack_hook().clone());
        all.pop_back();
      }
    }
    used.side().stop();
    return results;
  };
  const auto current = run("current");
  const auto side = run("side");
  ASSERT_EQ(current.size(), side.size());
  for (std::size_t i = 0; i < current.size(); ++i) EXPECT_TRUE(current[i].equal(side[i])) << i;
}

// Which recipes are proved, and so what is held, must not depend on how far the side thread got.
TEST(Streams, WhatTheSideThreadIsToApproximateHasNoExactValues) {
  Stash& used =
      begin_stash("side", R"({"name": "group_quant", "bits": 2})", R"(, "raw_window": 0)");
  static Site site(Site::Kind::many);
  HeldTensor first(site, false);
  HeldTensor second(site, false);
  HeldTensor last(site, false);
  first.call_pack_hook(at::randn({64, 64}));
  second.call_pack_hook(at::randn({64, 64}));
  c10::Storage exact;
  std::thread asks;
  {
    const EntryLock side_thread_waits(*first.entry());
    last.call_pack_hook(at::ones({64}));  // polls the others
    asks = std::thread([&] { exact = used.exact().of(*second.entry()); });
    usleep(20000);  // for a wrong answer
  }
  asks.join();
  EXPECT_FALSE(exact);
  used.side().stop();
}

TEST(Bookkeeping, TakesFewBytesAnEntry) {
  // One entry, its use and hook, the C library's headers of three blocks, and a share of the lists.
  EXPECT_LE(sizeof(Entry) + sizeof(HeldTensor) + 3 * 16, 432u);
}

}  // namespace
}  // namespace cinch::hooks
