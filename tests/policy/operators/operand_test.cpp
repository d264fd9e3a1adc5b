// SPDX-License-Identifier: Apache-2.0
#include "policy/operators/operand.h"

#include <limits>

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

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

TEST(OperandFact, FactorsOfProductsAreForTheOthersGradient) {
  EXPECT_TRUE(operand_fact("aten::mm", "self").for_others);
  EXPECT_TRUE(operand_fact("aten::convolution", "input").for_others);
  EXPECT_FALSE(operand_fact("aten::native_layer_norm", "input").for_others);
  EXPECT_FALSE(operand_fact("aten::gelu", "self").for_others);
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
  use.numbers = {0, 6};
  EXPECT_EQ(interval_of(hardtanh, use)->upper, 6);
  EXPECT_EQ(reads_of(hardtanh, use), Reads::interval);
  use.numbers = {6, 0};
  EXPECT_EQ(reads_of(hardtanh, use), Reads::values);
  use.numbers = {0, 6};
  EXPECT_FALSE(interval_of(operand_fact("aten::relu", "result"), use));
}

TEST(OperandFact, ClampsCompareWithNumbers) {
  using Bounds = codecs::IntervalBounds;
  const auto interval = [](std::string_view op, float second, float third = kNone,
                           codecs::ElementType type = codecs::ElementType::float32) {
    Use use;
    use.numbers = {second, third};
    use.type = type;
    return interval_of(operand_fact(op, "self"), use);
  };
  EXPECT_EQ(interval("aten::clamp", -7, 7), (Bounds{-7, 7, true}));
  EXPECT_EQ(interval("aten::clamp_", kNone, 7), (Bounds{-kInfinity, 7, true}));
  EXPECT_EQ(interval("aten::clamp", 1, kNone), (Bounds{1, kInfinity, true}));
  EXPECT_EQ(interval("aten::clamp", 7, -7), std::nullopt) << "the upper bound everywhere";
  EXPECT_EQ(interval("aten::clamp", kNone, kNone), std::nullopt) << "of tensors";
  EXPECT_EQ(interval("aten::clamp_min", 0), (Bounds{0, kInfinity, true}));
  EXPECT_EQ(interval("aten::clamp_max", 0), (Bounds{-kInfinity, 0, true}));
  EXPECT_EQ(interval("aten::threshold", 20, 0),
            (Bounds{std::nextafter(20.0F, 21.0F), kInfinity, true}));
  EXPECT_EQ(interval("aten::softshrink", 0.5F), (Bounds{-0.5F, 0.5F, true}));
  EXPECT_EQ(interval("aten::softshrink", -0.5F), std::nullopt);
  // Clamps round their numbers to the type; of others it depends on the device.
  const auto half = codecs::ElementType::bfloat16;
  EXPECT_EQ(interval("aten::clamp_min", 0.3F, kNone, half), (Bounds{0.30078125F, kInfinity, true}));
  EXPECT_EQ(interval("aten::threshold", 0.3F, 0, half), std::nullopt);
  EXPECT_EQ(interval("aten::hardshrink", 0.5F, kNone, half), (Bounds{-0.5F, 0.5F, true}));
  EXPECT_EQ(operand_fact("aten::clamp", "min").kind, OperandKind::exact);
  EXPECT_EQ(operand_fact("aten::clamp", "self").kind, OperandKind::exact);
}

TEST(OperandFact, ClampsMayLeaveOutTheirBounds) {
  const auto interval = [](std::string_view op, float second, float third = kNone) {
    Use use;
    use.numbers = {second, third};
    use.type = codecs::ElementType::float32;
    use.clamp_leaves_out_ends = true;
    return interval_of(operand_fact(op, "self"), use);
  };
  const auto holds = [&](float x, std::string_view op, float second, float third = kNone) {
    return is_inside(x, *interval(op, second, third));
  };
  EXPECT_FALSE(holds(-7, "aten::clamp", -7, 7));
  EXPECT_TRUE(holds(std::nextafter(-7.0F, 0.0F), "aten::clamp", -7, 7));
  EXPECT_TRUE(holds(std::nextafter(7.0F, 0.0F), "aten::clamp", -7, 7));
  EXPECT_FALSE(holds(7, "aten::clamp", -7, 7));
  EXPECT_TRUE(holds(-kInfinity, "aten::clamp", kNone, 7)) << "there is no lower bound";
  EXPECT_FALSE(holds(0, "aten::clamp_min", 0));
  EXPECT_FALSE(holds(-0.0F, "aten::clamp_min", 0));
  EXPECT_FALSE(holds(0, "aten::clamp_max", 0));
  EXPECT_EQ(interval("aten::clamp", 7, 7), std::nullopt) << "nothing lies between";
  EXPECT_EQ(interval("aten::hardtanh", -7, 7), (codecs::IntervalBounds{-7, 7, false}));
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
}

TEST(OperandFact, LogProbabilitiesAreExactUnlessNamed) {
  EXPECT_EQ(operand_fact("aten::_log_softmax", "result").kind, OperandKind::exact_unless_named);
  EXPECT_EQ(operand_fact("aten::logsumexp", "result").kind, OperandKind::exact);
}

TEST(OperandFact, OfTheLogLikelihoodsInputOnlyTheSizeIsRead) {
  for (const auto* op : {"aten::nll_loss_forward", "aten::nll_loss2d_forward"}) {
    EXPECT_EQ(operand_fact(op, "self").reads, Reads::nothing) << op;
    for (const auto* operand : {"target", "weight", "total_weight"}) {
      EXPECT_EQ(operand_fact(op, operand).kind, OperandKind::exact) << op << operand;
    }
  }
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

TEST(OperandFact, NormsInputsAreFactorsFromTheSecondOrderOn) {
  for (const auto& [op, operand] : {std::pair{"aten::linalg_vector_norm", "self"},
                                    {"aten::norm", "self"},
                                    {"aten::dist", "other"}}) {
    const OperandFact fact = operand_fact(op, operand);
    Use use;
    for (const float order : {0.0F, 1.0F, 1.5F, -2.0F, std::numeric_limits<float>::infinity()}) {
      use.exponent = order;
      EXPECT_EQ(kind_of(fact, use), OperandKind::unknown) << op << order;
    }
    for (const float order : {2.0F, 2.5F, 4.0F}) {
      use.exponent = order;
      EXPECT_EQ(kind_of(fact, use), OperandKind::factor) << op << order;
    }
    EXPECT_EQ(operand_fact(op, "result").kind, OperandKind::exact);
  }
}

TEST(OperandFact, AnglesAreTheArgumentsOfPeriodicFunctions) {
  EXPECT_EQ(operand_fact("aten::sin_", "self").kind, OperandKind::angle);
  EXPECT_EQ(operand_fact("aten::cosh", "self").kind, OperandKind::angle);
  EXPECT_EQ(operand_fact("aten::tan", "result").kind, OperandKind::exact);
}

TEST(OperandFact, SolversTolerateErrorsInTheSolutionAlone) {
  EXPECT_EQ(operand_fact("aten::_linalg_solve_ex", "result").kind, OperandKind::factor);
  EXPECT_EQ(operand_fact("aten::_linalg_solve_ex", "LU").kind, OperandKind::exact);
  EXPECT_EQ(operand_fact("aten::cholesky_solve", "self").reads, Reads::nothing);
  EXPECT_EQ(operand_fact("aten::linalg_inv_ex", "result0").kind, OperandKind::exact);
}

TEST(OperandFact, ScatteredSumsAndComparedOnesReadNoValues) {
  Use use;
  for (const char* operand : {"self", "src", "result"}) {
    const OperandFact fact = operand_fact("aten::scatter_reduce_", operand);
    use.is_linear_reduction = false;
    EXPECT_EQ(reads_of(fact, use), Reads::values) << "a product, or a maximum";
    EXPECT_EQ(kind_of(fact, use), OperandKind::unknown);
    use.is_comparison_held = true;
    EXPECT_EQ(reads_of(fact, use), Reads::nothing) << "of a maximum";
    use.is_comparison_held = false;
    use.is_linear_reduction = true;
    EXPECT_EQ(reads_of(fact, use), Reads::nothing);
  }
  EXPECT_EQ(reads_of(operand_fact("aten::scatter_reduce", "index"), use), Reads::values);
  EXPECT_EQ(reads_of(operand_fact("aten::index_reduce", "source"), use), Reads::nothing);
  EXPECT_EQ(reads_of(operand_fact("aten::segment_reduce", "data"), use), Reads::nothing);
}

TEST(OperandFact, WhatIsNotListedIsUnknown) {
  for (const auto& [op, operand] : {std::pair{"torchvision::roi_align", "input"},
                                    {"lgamma", "self"},
                                    {"aten::nothing_of_the_kind", "self"},
                                    {"aten::relu", "self"},
                                    {"MyFunction", "result"},
                                    {"", ""}}) {
    const OperandFact fact = operand_fact(op, operand);
    EXPECT_EQ(fact.kind, OperandKind::unknown) << op;
    EXPECT_EQ(fact.reads, Reads::values) << op;
  }
}

TEST(KindOf, WhatIsMagnifiedIsExact) {
  const auto of = [](std::string_view op, std::string_view operand) {
    Use use;
    use.is_magnified = true;
    return kind_of(operand_fact(op, operand), use);
  };
  for (const auto& [op, operand] : {std::pair{"aten::mm", "self"},
                                    {"aten::mul", "other"},
                                    {"aten::sin", "self"},
                                    {"aten::linear", "input"}}) {
    EXPECT_EQ(of(op, operand), OperandKind::exact) << op;
  }
  EXPECT_EQ(of("aten::relu", "result"), OperandKind::activation);  // its sign, which is exact
  EXPECT_EQ(of("aten::convolution", "weight"), OperandKind::exact);
}

}  // namespace
}  // namespace cinch::policy
