// SPDX-License-Identifier: Apache-2.0
//
// Each row of the table against PyTorch: what its step computes of the operand has the bits of the
// forward, in all element types and in two layouts.
#include "hooks/torch/autograd/nodes/functions.h"

#include <functional>
#include <set>
#include <string>
#include <typeindex>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hooks/torch/autograd/nodes/unsaved_numbers.h"
#include "hooks/torch/autograd/recognising/node_steps.h"
#include "hooks/torch/program/below_program.h"
#include "hooks/torch/stash/recipes/host_arithmetic.h"
#include "tests/hooks/same_bits.h"

namespace cinch::hooks {
namespace {

using at::Tensor;

struct Case {
  const char* name;
  std::vector<std::int64_t> sizes;
  std::function<Tensor(Tensor)> call;
};

const std::vector<std::int64_t> rows = {4, 6, 10};
const std::vector<std::int64_t> images = {2, 4, 6, 8};
const std::vector<std::int64_t> volumes = {2, 3, 4, 6, 5};

const std::vector<Case> cases = {
    {"gelu", images, [](const Tensor& x) { return at::gelu(x); }},
    {"gelu by tanh", images, [](const Tensor& x) { return at::gelu(x, "tanh"); }},
    {"silu", images, [](const Tensor& x) { return at::silu(x); }},
    {"tanh", images, [](const Tensor& x) { return at::tanh(x); }},
    {"pow 2", images, [](const Tensor& x) { return at::pow(x, 2); }},
    {"pow 3.0", images, [](const Tensor& x) { return at::pow(x, 3.0); }},
    {"sigmoid", images, [](const Tensor& x) { return at::sigmoid(x); }},
    {"hardswish", images, [](const Tensor& x) { return at::hardswish(x); }},
    {"hardsigmoid", images, [](const Tensor& x) { return at::hardsigmoid(x); }},
    {"mish", images, [](const Tensor& x) { return at::mish(x); }},
    {"neg", images, [](const Tensor& x) { return at::neg(x); }},
    {"abs", images, [](const Tensor& x) { return at::abs(x); }},
    {"sin", images, [](const Tensor& x) { return at::sin(x); }},
    {"cos", images, [](const Tensor& x) { return at::cos(x); }},
    {"exp", images, [](const Tensor& x) { return at::exp(x); }},
    {"leaky_relu", images, [](const Tensor& x) { return at::leaky_relu(x, 0.1); }},
    {"leaky_relu_", images, [](Tensor x) { return at::leaky_relu_(x, 0.1); }},
    {"celu", images, [](const Tensor& x) { return at::celu(x, 1.3); }},
    {"celu_", images, [](Tensor x) { return at::celu_(x, 1.3); }},
    {"elu", images, [](const Tensor& x) { return at::elu(x, 1.1, 0.9, 1.2); }},
    {"elu_", images, [](Tensor x) { return at::elu_(x, 1.1); }},
    {"softplus", images, [](const Tensor& x) { return at::softplus(x, 2, 1); }},
    {"hardtanh", images, [](const Tensor& x) { return at::hardtanh(x, -0.5, 0.7); }},
    {"clamp", images, [](const Tensor& x) { return at::clamp(x, -0.5, 0.7); }},
    {"clamp from below", images, [](const Tensor& x) { return at::clamp(x, -0.5); }},
    {"clamp_min", images, [](const Tensor& x) { return at::clamp_min(x, -0.25); }},
    {"clamp_max", images, [](const Tensor& x) { return at::clamp_max(x, 0.25); }},
    {"glu", images, [](const Tensor& x) { return at::glu(x, 1); }},
    {"glu at the end", rows, [](const Tensor& x) { return at::glu(x, -1); }},
    {"pixel_shuffle", images, [](const Tensor& x) { return at::pixel_shuffle(x, 2); }},
    {"pixel_unshuffle", images, [](const Tensor& x) { return at::pixel_unshuffle(x, 2); }},
    {"repeat", rows,
     [](const Tensor& x) {
       return x.repeat({2, 1, 3, 1});
     }},
    {"pad", images,
     [](const Tensor& x) {
       const Tensor y = at::constant_pad_nd(x, {1, 2, 0, 3}, 0.5);
       unsaved_numbers::note(y, c10::Scalar(0.5));  // as libcinch.so does
       return y;
     }},
    {"pad by nothing", images,
     [](const Tensor& x) {
       return at::constant_pad_nd(x, {0, 0});
     }},
    {"reflection_pad1d", rows,
     [](const Tensor& x) {
       return at::reflection_pad1d(x, {3, 2});
     }},
    {"reflection_pad2d", images,
     [](const Tensor& x) {
       return at::reflection_pad2d(x, {1, 2, 3, 0});
     }},
    {"reflection_pad3d", volumes,
     [](const Tensor& x) {
       return at::reflection_pad3d(x, {1, 2, 3, 0, 1, 1});
     }},
    {"replication_pad1d", rows,
     [](const Tensor& x) {
       return at::replication_pad1d(x, {3, 2});
     }},
    {"replication_pad2d", images,
     [](const Tensor& x) {
       return at::replication_pad2d(x, {1, 2, 3, 0});
     }},
    {"replication_pad3d", volumes,
     [](const Tensor& x) {
       return at::replication_pad3d(x, {1, 2, 3, 0, 1, 1});
     }},
    {"avg_pool2d", images,
     [](const Tensor& x) {
       return at::avg_pool2d(x, {3, 2}, {2, 2}, {1, 0}, true, false, 5);
     }},
    {"avg_pool2d of one size", images, [](const Tensor& x) { return at::avg_pool2d(x, 2); }},
    {"avg_pool3d", volumes,
     [](const Tensor& x) {
       return at::avg_pool3d(x, {2, 3, 2}, {2, 2, 1}, {1, 0, 0}, true);
     }},
    {"upsample_nearest1d", rows, [](const Tensor& x) { return at::upsample_nearest1d(x, {17}); }},
    {"upsample_nearest2d", images,
     [](const Tensor& x) {
       return at::upsample_nearest2d(x, {9, 12});
     }},
    {"upsample_nearest2d by factors", images,
     [](const Tensor& x) {
       return at::upsample_nearest2d(x, {9, 12}, 1.6, 1.5);
     }},
    {"upsample_nearest3d", volumes,
     [](const Tensor& x) {
       return at::upsample_nearest3d(x, {9, 6, 7});
     }},
    {"_upsample_nearest_exact1d", rows,
     [](const Tensor& x) { return at::_upsample_nearest_exact1d(x, {17}); }},
    {"_upsample_nearest_exact2d", images,
     [](const Tensor& x) {
       return at::_upsample_nearest_exact2d(x, {9, 12});
     }},
    {"_upsample_nearest_exact3d", volumes,
     [](const Tensor& x) {
       return at::_upsample_nearest_exact3d(x, {9, 6, 7}, 2.3, 1, 1.4);
     }},
    {"upsample_linear1d", rows,
     [](const Tensor& x) { return at::upsample_linear1d(x, {17}, true); }},
    {"upsample_bilinear2d", images,
     [](const Tensor& x) {
       return at::upsample_bilinear2d(x, {9, 12}, false, 1.6, 1.5);
     }},
    {"upsample_bilinear2d aligned", images,
     [](const Tensor& x) {
       return at::upsample_bilinear2d(x, {9, 12}, true);
     }},
    {"upsample_bicubic2d", images,
     [](const Tensor& x) {
       return at::upsample_bicubic2d(x, {9, 12}, false);
     }},
    {"upsample_trilinear3d", volumes,
     [](const Tensor& x) {
       return at::upsample_trilinear3d(x, {9, 6, 7}, true);
     }},
};

Tensor transposed(const Tensor& x) {
  if (x.dim() == 4) return x.contiguous(at::MemoryFormat::ChannelsLast);
  return x.transpose(0, 1).contiguous().transpose(0, 1);
}

class FunctionTable : public testing::TestWithParam<c10::ScalarType> {
 protected:
  /// Checks one operator. Leaves out what PyTorch does not compute in this type.
  void check(const Case& of, const Tensor& values) {
    const Tensor x = values.detach().requires_grad_();
    Tensor y;
    try {
      y = of.call(x.mul(1));  // in-place operators take no leaf
    } catch (const c10::Error&) {
      ASSERT_NE(values.scalar_type(), at::kFloat) << of.name;
      return;
    }
    torch::autograd::Node& node = *y.grad_fn();
    const auto function = functions().find(typeid(node));
    ASSERT_NE(function, functions().end()) << of.name << ": " << node.name();
    Recipe::Step step = step_of(Recipe::Operator::function, node);
    ASSERT_TRUE(function->second.describe(node, step)) << of.name;
    EXPECT_TRUE(function->second.resizes || y.sizes() == x.sizes()) << of.name;
    const BelowProgram guard;
    Tensor out = at::empty_like(y.detach());
    ASSERT_TRUE(host_arithmetic().apply(step, values, {}, out)) << of.name;
    if (step.rounds_by_threads) {
      EXPECT_TRUE(out.allclose(y.detach())) << of.name;
    } else {
      EXPECT_TRUE(same_bits(out, y.detach())) << of.name << " of " << values.sizes();
    }
    checked.insert(function->first);
  }

  std::set<std::type_index> checked;
};

TEST_P(FunctionTable, GivesTorchsBits) {
  for (const Case& each : cases) {
    const Tensor x = at::randn(each.sizes).to(GetParam());
    check(each, x);
    check(each, transposed(x));
  }
  // avg_pool3d has no kernel for 16 bits on the CPU.
  const std::size_t gaps = c10::elementSize(GetParam()) == 2 ? 1 : 0;
  EXPECT_EQ(checked.size(), functions().size() - gaps);
}

INSTANTIATE_TEST_SUITE_P(Types, FunctionTable,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(toString(info.param)); });

TEST(FunctionTable, PowersThatMagnifyErrorsAreNoneOfThem) {
  const Tensor y = at::randn({8}).abs().requires_grad_().pow(0.5);
  torch::autograd::Node& node = *y.grad_fn();
  Recipe::Step step = step_of(Recipe::Operator::function, node);
  EXPECT_FALSE(functions().at(typeid(node)).describe(node, step));
}

}  // namespace
}  // namespace cinch::hooks
