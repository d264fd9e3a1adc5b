// SPDX-License-Identifier: Apache-2.0
#include "policy/operators/backward_reads.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

/// What a backward of these calls, "name operator argument=…", reads `x` for, in words. `x` and `y`
/// are saved, `g` is a gradient. "?" where it is not known; "!" in front where it has to be exact.
std::string reads_of_x(std::string calls) {
  std::ranges::replace(calls, ' ', '\t');
  std::string graph = "saved\tx\nsaved\ty\ngradient\tg\n";
  while (!calls.empty()) {
    const std::size_t end = std::min(calls.find('\n'), calls.size());
    graph += "call\t" + calls.substr(0, end) + '\n';
    calls.erase(0, end + 1);
  }
  const auto reads = backward_reads(graph);
  EXPECT_EQ(reads.size(), 2U) << graph;
  if (reads.empty() || reads.front().empty()) return "?";
  return (reads.front().front().exact ? "!" : "") + in_words(reads.front());
}

TEST(BackwardReads, OfOperatorsThatFactsKnow) {
  EXPECT_EQ(reads_of_x("a aten::mm self=%g mat2=%x"), "mm mat2");
  EXPECT_EQ(reads_of_x("a aten::convolution_backward grad_output=%g input=%x weight=%y"),
            "convolution input");
  EXPECT_EQ(reads_of_x("a aten::gelu_backward grad_output=%g self=%x"), "gelu self");
  EXPECT_EQ(reads_of_x("a aten::tanh_backward grad_output=%g output=%x"), "tanh result");
  EXPECT_EQ(reads_of_x("a aten::native_layer_norm_backward grad_out=%g input=%x mean=%y"),
            "native_layer_norm input");
  EXPECT_EQ(reads_of_x("a aten::avg_pool2d_backward grad_output=%g self=%x"), "avg_pool2d self");
}

TEST(BackwardReads, StatisticsAndLogSumExpAreExact) {
  EXPECT_EQ(reads_of_x("a aten::native_layer_norm_backward grad_out=%g input=%y mean=%x"),
            "!native_layer_norm mean");
  EXPECT_EQ(reads_of_x("a aten::_scaled_dot_product_flash_attention_for_cpu_backward grad_out=%g "
                       "query=%y logsumexp=%x"),
            "!_scaled_dot_product_flash_attention_for_cpu logsumexp");
  EXPECT_EQ(reads_of_x("a aten::_log_softmax_backward_data grad_output=%g output=%x"),
            "_log_softmax result")
      << "its fact says when it is exact";
  // A group's mean, of which the shape tells nothing.
  EXPECT_EQ(reads_of_x("a aten::unsqueeze self=%x dim=2\n"
                       "b aten::sub self=%y other=%a\n"
                       "c aten::mul self=%g other=%b"),
            "!sub other");
  // Not what is spread for a product of matrices: heads that share keys.
  EXPECT_EQ(reads_of_x("a aten::unsqueeze self=%x dim=2\n"
                       "b aten::expand self=%a size=[8,2,4,64]\n"
                       "c aten::bmm self=%g mat2=%b"),
            "bmm mat2");
}

TEST(BackwardReads, LooksThroughViewsAndCasts) {
  EXPECT_EQ(reads_of_x("a aten::view self=%x size=[4,8]\n"
                       "b aten::permute self=%a dims=[1,0]\n"
                       "c prims::convert_element_type a=%b dtype=torch.bfloat16\n"
                       "d aten::mm self=%c mat2=%g"),
            "mm self");
  EXPECT_EQ(reads_of_x("a prims::convert_element_type a=%x dtype=torch.int64\n"
                       "b aten::mul self=%a other=%g"),
            "?");
}

TEST(BackwardReads, SeveralReadsOfOneTensor) {
  EXPECT_EQ(reads_of_x("a aten::convolution_backward grad_output=%g input=%x weight=%y\n"
                       "b aten::threshold_backward grad_output=%a self=%x threshold=0"),
            "convolution input, relu result");
  EXPECT_EQ(reads_of_x("a aten::mm self=%g mat2=%x\n"
                       "b aten::mm self=%x mat2=%g\n"
                       "c aten::mm self=%g mat2=%x"),
            "mm mat2, mm self");
  // The least tolerant decides.
  EXPECT_EQ(reads_of_x("a aten::mm self=%g mat2=%x\n"
                       "b aten::div self=%g other=%x"),
            "!div other");
  EXPECT_EQ(reads_of_x("a aten::mm self=%g mat2=%x\n"
                       "b some::op 0=%x"),
            "?");
}

TEST(BackwardReads, SmoothFunctionsAreFactors) {
  EXPECT_EQ(reads_of_x("a aten::mul self=%g other=%x"), "mul self");
  // Batch norm's backward, and what follows from a recomputed norm.
  EXPECT_EQ(reads_of_x("a aten::sub self=%x other=%y\n"
                       "b aten::mul self=%a other=%y\n"
                       "c aten::mul self=%g other=%b\n"
                       "d aten::mm self=%g mat2=%b"),
            "mul self, mm mat2");
  EXPECT_EQ(reads_of_x("a aten::where self=%g other=%x condition=%y"), "mul self");
  EXPECT_EQ(reads_of_x("a aten::pow self=%x exponent=2\n"
                       "b aten::mul self=%g other=%a"),
            "mul self");
}

TEST(BackwardReads, ActivationFunctionsThatWereDecomposed) {
  // SiLU: x / (1 + exp(-x)), and its sigmoid alone.
  EXPECT_EQ(reads_of_x("a aten::neg self=%x\n"
                       "b aten::exp self=%a\n"
                       "c aten::add self=%b other=1\n"
                       "d aten::div self=%x other=%c\n"
                       "e aten::reciprocal self=%c\n"
                       "f aten::mul self=%g other=%d\n"
                       "h aten::mul self=%f other=%e"),
            "mul self");
  // GELU: exp(-x²/2).
  EXPECT_EQ(reads_of_x("a aten::mul self=%x other=%x\n"
                       "b aten::mul self=%a other=-0.5\n"
                       "c aten::exp self=%b\n"
                       "d aten::mul self=%g other=%c"),
            "mul self");
  // Softmax: exp(x - max), of which nothing is known.
  EXPECT_EQ(reads_of_x("a aten::sub self=%x other=%y\n"
                       "b aten::exp self=%a\n"
                       "c aten::mul self=%g other=%b"),
            "?");
  EXPECT_EQ(reads_of_x("a aten::neg self=%x\n"
                       "b aten::exp self=%a\n"
                       "c aten::add self=%b other=1\n"
                       "d aten::log self=%c\n"
                       "e aten::mul self=%g other=%d"),
            "?");
}

TEST(BackwardReads, SignsAreKnownOnlyOfWhatWasSaved) {
  EXPECT_EQ(reads_of_x("a aten::le self=%x other=0\n"
                       "b aten::where condition=%a self=%y other=%g"),
            "relu result");
  EXPECT_EQ(reads_of_x("a aten::gt self=%x other=0"), "relu result");
  EXPECT_EQ(reads_of_x("a aten::lt self=%x other=0"), "?") << "a zero would have to stay one";
  EXPECT_EQ(reads_of_x("a aten::gt self=%x other=20"), "?");
  EXPECT_EQ(reads_of_x("a aten::add self=%x other=%y\n"
                       "b aten::le self=%a other=0"),
            "?");
  EXPECT_EQ(reads_of_x("a aten::threshold_backward grad_output=%g self=%x threshold=1"),
            "!threshold self");
}

TEST(BackwardReads, WhatIsComparedOrHasAPoleIsExact) {
  EXPECT_EQ(reads_of_x("a aten::eq self=%x other=%y"), "!eq self");
  EXPECT_EQ(reads_of_x("a aten::rsqrt self=%x\n"
                       "b aten::mul self=%g other=%a"),
            "!rsqrt self");
  EXPECT_EQ(reads_of_x("a aten::pow self=%x exponent=-0.5\n"
                       "b aten::mul self=%g other=%a"),
            "!pow self");
  EXPECT_EQ(reads_of_x("a aten::amax self=%x dim=[1]"), "!amax self");
  // Of something that was computed from it, nothing is known.
  EXPECT_EQ(reads_of_x("a aten::var self=%x dim=[1]\n"
                       "b aten::rsqrt self=%a\n"
                       "c aten::mul self=%g other=%b"),
            "?");
}

TEST(BackwardReads, SizesAreNoValues) {
  EXPECT_EQ(reads_of_x("a aten::zeros_like self=%x dtype=torch.int64\n"
                       "b aten::mm self=%g mat2=%x"),
            "mm mat2");
}

TEST(BackwardReads, NothingOfAGraphThatIsNotOne) {
  EXPECT_TRUE(backward_reads("saved\tx\ncall\ta\taten::neg\tself=%b").empty());
  EXPECT_TRUE(backward_reads("").empty());
}

}  // namespace
}  // namespace cinch::policy
