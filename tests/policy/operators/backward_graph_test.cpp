// SPDX-License-Identifier: Apache-2.0
#include "policy/operators/backward_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

TEST(BackwardGraph, KnowsWhoReadsWhat) {
  const auto graph = parse_backward_graph(
      "saved\tx\n"
      "input\ts\n"
      "gradient\tg\n"
      "call\ta\taten::cat\ttensors=[%x,[%g,%x]]\tdim=0\n"
      "call\tb\taten::pow\tself=%x\texponent=2\n"
      "output\t[%a,None,%b]");
  ASSERT_TRUE(graph);
  EXPECT_THAT(graph->saved, testing::ElementsAre(0));
  ASSERT_EQ(graph->nodes.size(), 6U);
  const BackwardGraph::Node& cat = graph->nodes[3];
  EXPECT_EQ(cat.op, "aten::cat");
  EXPECT_THAT(cat.argument("tensors")->nodes, testing::ElementsAre(0, 2, 0));
  EXPECT_EQ(cat.argument("dim")->text, "0");
  EXPECT_EQ(cat.argument("out"), nullptr);
  EXPECT_EQ(graph->nodes[0].readers.size(), 3U);
  EXPECT_THAT(graph->nodes.back().arguments.front().nodes, testing::ElementsAre(3, 4));
}

TEST(BackwardGraph, KnowsWhatDependsOnGradients) {
  const auto graph = parse_backward_graph(
      "saved\tx\n"
      "gradient\tg\n"
      "call\ta\taten::neg\tself=%x\n"
      "call\tb\taten::mul\tself=%a\tother=%g\n"
      "call\tc\taten::neg\tself=%b");
  ASSERT_TRUE(graph);
  EXPECT_FALSE(graph->nodes[2].is_gradient);
  EXPECT_TRUE(graph->nodes[3].is_gradient);
  EXPECT_TRUE(graph->nodes[4].is_gradient);
}

TEST(BackwardGraph, RefusesWhatItDoesNotUnderstand) {
  EXPECT_FALSE(parse_backward_graph("call\ta\taten::neg\tself=%x")) << "a name nobody has";
  EXPECT_FALSE(parse_backward_graph("saved\tx\nsaved\tx")) << "a name twice";
  EXPECT_FALSE(parse_backward_graph("something\tx")) << "a line of another kind";
  EXPECT_TRUE(parse_backward_graph("")->nodes.empty());
}

}  // namespace
}  // namespace cinch::policy
