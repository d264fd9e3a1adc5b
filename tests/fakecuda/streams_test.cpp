// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support.h"

namespace fakecuda {
namespace {

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&event_), cudaSuccess);
  }

  void TearDown() override {
    fakecuda_schedule("eager");
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(a_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b_), cudaSuccess);
  }

  /// Enqueues work that appends a letter to `done_`.
  void work(cudaStream_t stream, char letter) {
    struct Context {
      std::string* done;
      char letter;
    };
    fakecuda_enqueue(
        stream, "a letter",
        [](void* c) { *static_cast<Context*>(c)->done += static_cast<Context*>(c)->letter; },
        [](void* c) { delete static_cast<Context*>(c); }, new Context{&done_, letter}, nullptr, 0);
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t event_ = nullptr;
  std::string done_;
};

TEST_F(Streams, EagerWorkIsDoneAtOnce) {
  work(a_, 'a');
  work(b_, 'b');
  EXPECT_EQ(done_, "ab");
  EXPECT_EQ(cudaStreamQuery(a_), cudaSuccess);
  EXPECT_EQ(fakecuda_pending(), 0u);
}

TEST_F(Streams, CallsInWhichCudaMaySynchronizeAreCounted) {
  char pageable[16] = {};
  void *device = nullptr, *pinned = nullptr;
  auto counted = [before = fakecuda_implicit_syncs()](cudaError_t result) mutable {
    EXPECT_EQ(result, cudaSuccess);
    const std::uint64_t now = fakecuda_implicit_syncs();
    return now - std::exchange(before, now);
  };
  EXPECT_EQ(counted(cudaMalloc(&device, 16)), 1u);
  EXPECT_EQ(counted(cudaHostAlloc(&pinned, 16, 0)), 1u);
  EXPECT_EQ(counted(cudaMemcpyAsync(device, pageable, 16, cudaMemcpyHostToDevice, a_)), 1u);
  EXPECT_EQ(counted(cudaMemcpyAsync(pageable, device, 16, cudaMemcpyDeviceToHost, a_)), 1u);
  EXPECT_EQ(counted(cudaMemcpyAsync(device, pinned, 16, cudaMemcpyHostToDevice, a_)), 0u);
  EXPECT_EQ(counted(cudaMemcpyAsync(pinned, device, 16, cudaMemcpyDeviceToHost, a_)), 0u);
  EXPECT_EQ(counted(cudaMemcpy(device, pinned, 16, cudaMemcpyHostToDevice)), 1u);
  EXPECT_EQ(counted(cudaMemset(device, 0, 16)), 1u);
  EXPECT_EQ(counted(cudaMemsetAsync(device, 0, 16, a_)), 0u);
  EXPECT_EQ(counted(cudaEventRecord(event_, a_)), 0u);
  EXPECT_EQ(counted(cudaStreamWaitEvent(b_, event_, 0)), 0u);
  EXPECT_EQ(counted(cudaStreamSynchronize(a_)), 0u) << "that one is for waiting";
  cudaStream_t made = nullptr;
  EXPECT_EQ(counted(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking)), 1u);
  EXPECT_EQ(counted(cudaStreamDestroy(made)), 1u);
  EXPECT_EQ(counted(cudaFreeHost(pinned)), 1u);
  EXPECT_EQ(counted(cudaFree(device)), 1u);
  EXPECT_EQ(fakecuda_implicit_syncs_of("cudaMalloc"), 1u);
}

TEST_F(Streams, LazyWorkIsDoneWhenSomebodyWaits) {
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  work(a_, 'a');
  work(b_, 'b');
  EXPECT_EQ(done_, "");
  EXPECT_EQ(cudaStreamQuery(b_), cudaErrorNotReady);
  ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(done_, "b");
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(done_, "ba");
}

TEST_F(Streams, WorkAfterAWaitFollowsTheEvent) {
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  work(a_, 'a');
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  work(a_, 'x');
  ASSERT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaSuccess);
  work(b_, 'b');
  ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(done_, "ab");
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(done_, "abx");
}

TEST_F(Streams, ADestroyedStreamIsNotToBeUsed) {
  cudaStream_t stream = nullptr, other = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  EXPECT_NE(stream, other) << "a use of the old one would pass for one of the new";
  EXPECT_EQ(fakecuda_faults(), 0u);
  EXPECT_EQ(cudaEventRecord(event_, stream), cudaErrorContextIsDestroyed);
  EXPECT_EQ(cudaStreamWaitEvent(stream, event_, 0), cudaErrorContextIsDestroyed);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorContextIsDestroyed);
  EXPECT_EQ(fakecuda_faults(), 3u);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(Streams, AWaitIsForTheLastRecordBeforeIt) {
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  work(a_, 'a');
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaSuccess);
  work(a_, 'x');
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  work(b_, 'b');
  ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(done_, "ab");
}

TEST_F(Streams, WithoutAWaitEitherOrderComes) {
  bool first = false, second = false;
  for (int seed = 0; seed < 50; ++seed) {
    ASSERT_EQ(fakecuda_schedule(("random:" + std::to_string(seed)).c_str()), 0);
    done_.clear();
    work(a_, 'a');
    work(b_, 'b');
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    first = first || done_ == "ab";
    second = second || done_ == "ba";
    ASSERT_EQ(done_.size(), 2u);
  }
  EXPECT_TRUE(first && second);
}

TEST_F(Streams, ASeedGivesTheSameOrderAgain) {
  const auto order = [&](const char* schedule) {
    EXPECT_EQ(fakecuda_schedule(schedule), 0);
    done_.clear();
    for (char c = 'a'; c < 'k'; ++c) {
      work(a_, c);
      work(b_, static_cast<char>(c - 'a' + 'A'));
    }
    cudaDeviceSynchronize();
    return done_;
  };
  const std::string once = order("random:7");
  EXPECT_EQ(order("random:7"), once);
  EXPECT_NE(order("random:8"), once);
}

TEST_F(Streams, EveryRandomOrderKeepsDependencies) {
  for (int seed = 0; seed < 200; ++seed) {
    ASSERT_EQ(fakecuda_schedule(("random:" + std::to_string(seed)).c_str()), 0);
    done_.clear();
    work(a_, '1');
    cudaEventRecord(event_, a_);
    cudaStreamWaitEvent(b_, event_, 0);
    work(b_, '2');
    cudaEventRecord(event_, b_);
    work(a_, 'x');
    cudaStreamWaitEvent(a_, event_, 0);
    work(a_, '3');
    cudaEventQuery(event_);  // runs some work
    cudaDeviceSynchronize();
    std::erase(done_, 'x');
    ASSERT_EQ(done_, "123") << seed;
  }
}

TEST_F(Streams, TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  work(blocking, 'a');
  work(nullptr, 'b');
  work(blocking, 'c');
  work(b_, 'x');
  ASSERT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(done_, "abc");
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_F(Streams, PollingEndsButAHeldStreamStays) {
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  work(a_, 'a');
  cudaEventRecord(event_, a_);
  int polls = 0;
  while (cudaEventQuery(event_) == cudaErrorNotReady && polls < 100) ++polls;
  EXPECT_GT(polls, 0);
  EXPECT_LT(polls, 100);

  ASSERT_EQ(fakecuda_schedule("eager"), 0);
  fakecuda_hold(a_);
  work(a_, 'b');
  cudaEventRecord(event_, a_);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  cudaStreamWaitEvent(b_, event_, 0);
  work(b_, 'c');
  EXPECT_EQ(done_, "a");
  fakecuda_release(a_);
  EXPECT_EQ(done_, "abc");
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
}

TEST_F(Streams, AnEventsDelayCountsQueriesAndEndsWhenTheHostWaits) {
  fakecuda_set_event_delay(2);
  cudaEventRecord(event_, a_);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  cudaEventRecord(event_, a_);
  cudaStreamSynchronize(a_);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
}

TEST_F(Streams, TheHostsWaitsAreCounted) {
  const auto before = fakecuda_host_syncs();
  work(a_, 'a');
  cudaEventRecord(event_, a_);
  cudaEventQuery(event_);
  cudaStreamWaitEvent(b_, event_, 0);
  EXPECT_EQ(fakecuda_host_syncs(), before);
  cudaEventSynchronize(event_);
  cudaStreamSynchronize(a_);
  cudaDeviceSynchronize();
  EXPECT_EQ(fakecuda_host_syncs(), before + 3);
  EXPECT_EQ(fakecuda_host_syncs_of("cudaEventSynchronize"), 1u);
}

TEST_F(Streams, ACaptureDoesNothingAndALaunchDoesIt) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal), cudaSuccess);
  work(a_, 'a');
  cudaEventRecord(event_, a_);
  cudaStreamWaitEvent(b_, event_, 0);  // b joins
  work(b_, 'b');
  cudaEventRecord(event_, b_);
  cudaStreamWaitEvent(a_, event_, 0);
  work(a_, 'c');
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorStreamCaptureUnsupported);
  ASSERT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  EXPECT_EQ(done_, "");
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  cudaGraphLaunch(executable, a_);
  cudaGraphLaunch(executable, b_);
  EXPECT_EQ(done_, "abcabc");
  work(b_, 'x');
  EXPECT_EQ(done_, "abcabcx");
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Streams, AnotherThreadsAllocationEndsACaptureUnlessItIsRelaxed) {
  const auto allocate = [](cudaStreamCaptureMode mode) {
    cudaError_t found = cudaSuccess;
    std::thread([&found, mode]() mutable {
      cudaThreadExchangeStreamCaptureMode(&mode);
      void* memory = nullptr;
      found = cudaHostAlloc(&memory, 4096, cudaHostAllocPortable);
      if (found == cudaSuccess) cudaFreeHost(memory);
    }).join();
    return found;
  };
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(allocate(cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(allocate(cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);

  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(allocate(cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);

  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(allocate(cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Streams, PlannedFailuresComeOnceAtTheirTime) {
  fakecuda_fail("cudaEventRecord", 2, cudaErrorLaunchFailure);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
}

TEST_F(Streams, LaunchesGoToWhoKnowsTheKernelAndElseFailByName) {
  static const char kernel = 0;
  __cudaRegisterFunction(nullptr, &kernel, nullptr, "a_kernel", -1, nullptr, nullptr, nullptr,
                         nullptr, nullptr);
  EXPECT_EQ(cudaLaunchKernel(&kernel, {1}, {1}, nullptr, 0, a_), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(fakecuda_faults(), 1u);
  static int runs = 0;
  fakecuda_add_kernels([](fakecuda_launch* launch) {
    if (std::strcmp(launch->name, "a_kernel") != 0) return 0;
    launch->context = nullptr;
    launch->run = [](void*) { ++runs; };
    launch->destroy = [](void*) {};
    return 1;
  });
  ASSERT_EQ(fakecuda_schedule("lazy"), 0);
  EXPECT_EQ(cudaLaunchKernel(&kernel, {1}, {1}, nullptr, 0, a_), cudaSuccess);
  EXPECT_EQ(runs, 0);
  cudaStreamSynchronize(a_);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(fakecuda_launches(), 2u);
  EXPECT_EQ(fakecuda_launches_skipped(), 1u);
}

}  // namespace
}  // namespace fakecuda
