// SPDX-License-Identifier: Apache-2.0
#include "policy/operand.h"

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

using codecs::Reads;

TEST(OperandFact, ConvolutionAndNorms) {
  const OperandFact conv = operand_fact("aten::convolution", "input");
  EXPECT_EQ(conv.reads, Reads::values);
  EXPECT_EQ(conv.kind, OperandKind::activation);
  EXPECT_TRUE(conv.spatial);
  EXPECT_EQ(operand_fact("aten::convolution", "weight").kind, OperandKind::exact);
  EXPECT_EQ(operand_fact("aten::native_batch_norm", "input").kind, OperandKind::activation);
  EXPECT_EQ(operand_fact("aten::native_batch_norm", "running_mean").kind, OperandKind::exact);
  EXPECT_EQ(operand_fact("aten::native_batch_norm", "result1").kind, OperandKind::exact);
  EXPECT_FALSE(operand_fact("aten::native_layer_norm", "input").spatial);
  EXPECT_EQ(operand_fact("aten::native_layer_norm", "result2").kind, OperandKind::exact);
}

TEST(OperandFact, InPlaceVariantsShareFacts) {
  EXPECT_EQ(operand_fact("aten::relu", "result").reads, Reads::sign);
  EXPECT_EQ(operand_fact("aten::relu_", "result").reads, Reads::sign);
  EXPECT_EQ(operand_fact("aten::leaky_relu", "self").reads, Reads::sign);
  EXPECT_EQ(operand_fact("aten::leaky_relu_", "result").reads, Reads::sign);
  EXPECT_EQ(operand_fact("aten::silu_", "self").kind, OperandKind::activation);
}

TEST(OperandFact, PreluReadsValuesWithTheirSigns) {
  const OperandFact self = operand_fact("aten::_prelu_kernel", "self");
  EXPECT_EQ(self.reads, Reads::values);
  EXPECT_EQ(self.kind, OperandKind::activation);
  EXPECT_TRUE(self.exact_sign);
  EXPECT_FALSE(operand_fact("aten::elu", "self").exact_sign);
  EXPECT_EQ(operand_fact("aten::_prelu_kernel", "weight").kind, OperandKind::exact);
}

TEST(OperandFact, Pooling) {
  EXPECT_EQ(operand_fact("aten::max_pool2d_with_indices", "self").reads, Reads::nothing);
  const OperandFact index = operand_fact("aten::max_pool2d_with_indices", "result1");
  EXPECT_EQ(index.kind, OperandKind::window_index);
  EXPECT_EQ(index.plane_rank, 2);
  EXPECT_EQ(operand_fact("aten::max_pool3d_with_indices", "result1").plane_rank, 3);
  EXPECT_EQ(operand_fact("aten::avg_pool2d", "self").reads, Reads::nothing);
}

TEST(OperandFact, AttentionKeepsLogSumExpExact) {
  for (const auto* op : {"aten::_scaled_dot_product_flash_attention_for_cpu",
                         "aten::_scaled_dot_product_flash_attention",
                         "aten::_scaled_dot_product_efficient_attention",
                         "aten::_scaled_dot_product_cudnn_attention"}) {
    for (const auto* operand : {"query", "key", "value", "result0", "output"}) {
      EXPECT_EQ(operand_fact(op, operand).kind, OperandKind::activation) << op << operand;
    }
    for (const auto* operand : {"result1", "logsumexp", "log_sumexp", "attn_mask", "rng_state"}) {
      EXPECT_EQ(operand_fact(op, operand).kind, OperandKind::exact) << op << operand;
    }
  }
}

TEST(OperandFact, IntervalsNeedTheirBounds) {
  Use use;
  const OperandFact hardtanh = operand_fact("aten::hardtanh_", "self");
  EXPECT_EQ(hardtanh.kind, OperandKind::unknown);
  EXPECT_FALSE(interval_of(hardtanh, use));
  EXPECT_EQ(reads_of(hardtanh, use), Reads::values);
  const OperandFact hardsigmoid = operand_fact("aten::hardsigmoid", "self");
  EXPECT_EQ(interval_of(hardsigmoid, use)->upper, 3);
  EXPECT_EQ(reads_of(hardsigmoid, use), Reads::interval);
  use.bounds = {0, 6};
  EXPECT_EQ(interval_of(hardtanh, use)->upper, 6);
  EXPECT_EQ(reads_of(hardtanh, use), Reads::interval);
  use.bounds = {6, 0};
  EXPECT_EQ(reads_of(hardtanh, use), Reads::values);
  use.bounds = {0, 6};
  EXPECT_FALSE(interval_of(operand_fact("aten::relu", "result"), use));
}

TEST(OperandFact, FactorsTolerateApproximation) {
  for (const auto& [op, operand] : {std::pair{"aten::mul", "other"},
                                    {"aten::mul_", "self"},
                                    {"aten::div", "self"},
                                    {"aten::exp", "result"},
                                    {"aten::_softmax", "result"}}) {
    EXPECT_EQ(operand_fact(op, operand).kind, OperandKind::factor) << op;
    EXPECT_EQ(operand_fact(op, operand).reads, Reads::values) << op;
  }
  // A denominator's small values decide.
  EXPECT_EQ(operand_fact("aten::div", "other").kind, OperandKind::exact);
  EXPECT_EQ(operand_fact("aten::_log_softmax", "result").kind, OperandKind::exact);
}

TEST(OperandFact, BasesAreFactorsUnderWholeExponents) {
  const OperandFact fact = operand_fact("aten::pow", "self");
  Use use;
  EXPECT_EQ(kind_of(fact, use), OperandKind::unknown) << "no exponent is known";
  for (const float exponent : {-0.5F, 0.5F, 1.5F}) {
    use.exponent = exponent;
    EXPECT_EQ(kind_of(fact, use), OperandKind::unknown) << exponent;
  }
  for (const float exponent : {1.0F, 2.0F, 3.0F}) {
    use.exponent = exponent;
    EXPECT_EQ(kind_of(fact, use), OperandKind::factor) << exponent;
  }
}

TEST(OperandFact, ScatteredSumsReadNoValues) {
  Use use;
  for (const char* operand : {"self", "src", "result"}) {
    const OperandFact fact = operand_fact("aten::scatter_reduce_", operand);
    use.is_linear_reduction = false;
    EXPECT_EQ(reads_of(fact, use), Reads::values) << "a product, or a maximum";
    EXPECT_EQ(kind_of(fact, use), OperandKind::unknown);
    use.is_linear_reduction = true;
    EXPECT_EQ(reads_of(fact, use), Reads::nothing);
  }
  EXPECT_EQ(reads_of(operand_fact("aten::scatter_reduce", "index"), use), Reads::values);
}

TEST(OperandFact, WhatIsNotListedIsUnknown) {
  for (const auto& [op, operand] : {std::pair{"aten::igamma", "other"},
                                    {"aten::lgamma", "self"},
                                    {"aten::relu", "self"},
                                    {"MyFunction", "result"},
                                    {"", ""}}) {
    const OperandFact fact = operand_fact(op, operand);
    EXPECT_EQ(fact.kind, OperandKind::unknown) << op;
    EXPECT_EQ(fact.reads, Reads::values) << op;
  }
}

}  // namespace
}  // namespace cinch::policy
