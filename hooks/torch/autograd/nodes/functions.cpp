// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/functions.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/_upsample_nearest_exact1d.h>
#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/_upsample_nearest_exact3d.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pixel_shuffle.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/reflection_pad1d.h>
#include <ATen/ops/reflection_pad2d.h>
#include <ATen/ops/reflection_pad3d.h>
#include <ATen/ops/repeat.h>
#include <ATen/ops/replication_pad1d.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/replication_pad3d.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/upsample_nearest1d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest3d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include "hooks/torch/autograd/nodes/unsaved_numbers.h"

namespace cinch::hooks {
namespace {

using torch::autograd::Node;
using Step = Recipe::Step;
using Operator = Recipe::Operator;
using Row = std::pair<const std::type_index, Function>;

// add() puts what a node says of its operator behind the step's numbers. It returns false for what
// is not known: the sizes of a traced program.

bool add(Step& step, double number) {
  step.numbers.push_back(number);
  return true;
}
bool add(Step& step, bool flag) {
  return add(step, flag ? 1.0 : 0.0);
}
bool add(Step& step, std::int64_t number) {
  return add(step, static_cast<double>(number));
}
bool add(Step& step, const at::Scalar& number) {
  return add(step, number.toDouble());
}
/// Step::given() has it.
bool add(Step& step, const std::optional<double>& number) {
  return add(step, number.value_or(0));
}
bool add(Step& step, const c10::SymInt& number) {
  const auto known = number.maybe_as_int();
  return known && add(step, *known);
}
template <typename Number>
bool add(Step& step, const std::vector<Number>& numbers) {
  return std::ranges::all_of(numbers, [&](const Number& each) { return add(step, each); });
}
template <typename First, typename Second, typename... Others>
bool add(Step& step, const First& first, const Second& second, const Others&... others) {
  return add(step, first) && add(step, second) && (add(step, others) && ...);
}

/// Kernel, stride and padding of average pooling in `rank` dimensions, and what else it knows.
template <typename Of>
bool add_window(Step& step, const Of& of, std::size_t rank) {
  const auto& strides = of.stride.empty() ? of.kernel_size : of.stride;
  for (const auto* each : {&of.kernel_size, &strides, &of.padding}) {
    if (each->size() != 1 && each->size() != rank) return false;
    for (std::size_t i = 0; i < rank; ++i) add(step, (*each)[each->size() == 1 ? 0 : i]);
  }
  return add(step, of.ceil_mode, of.count_include_pad, of.divisor_override.value_or(0));
}

std::int64_t integer(const Step& step, std::size_t i) {
  return static_cast<std::int64_t>(step.numbers[i]);
}

/// `count` of the numbers, from the `first` on.
c10::DimVector integers(const Step& step, std::size_t first, std::size_t count) {
  c10::DimVector made;
  for (std::size_t i = first; i < first + count; ++i) made.push_back(integer(step, i));
  return made;
}

// What nodes say of their operators.

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr auto nothing = [](auto&, Step&) { return true; };
constexpr auto magnifying = [](auto&, Step& s) { return s.magnifies = s.rounds_by_threads = true; };
constexpr auto gelu_of = [](auto& of, Step& s) {
  s.op = Operator::gelu;
  s.tanh = of.approximate == "tanh";
  return true;
};
constexpr auto silu_of = [](auto&, Step& s) {
  s.op = Operator::silu;
  return true;
};
constexpr auto tanh_of = [](auto&, Step& s) {
  s.op = Operator::tanh;
  return s.rounds_by_threads = true;
};
// Other powers may make a large error of a small one.
constexpr auto power_of = [](auto& of, Step& s) {
  s.op = Operator::pow;
  return (of.exponent.equal(2) || of.exponent.equal(3)) && add(s, of.exponent);
};
constexpr auto slope_of = [](auto& of, Step& s) { return add(s, of.negative_slope); };
constexpr auto elu_of = [](auto& of, Step& s) {
  return add(s, of.alpha, of.scale, of.input_scale);
};
constexpr auto alpha_of = [](auto& of, Step& s) { return add(s, of.alpha); };
constexpr auto softplus_of = [](auto& of, Step& s) { return add(s, of.beta, of.threshold); };
constexpr auto hardtanh_of = [](auto& of, Step& s) { return add(s, of.min_val, of.max_val); };
constexpr auto bounds_of = [](auto& of, Step& s) {
  return add(s, of.min.value_or(-infinity), of.max.value_or(infinity));
};
constexpr auto least_of = [](auto& of, Step& s) { return add(s, of.min, infinity); };
constexpr auto most_of = [](auto& of, Step& s) { return add(s, -infinity, of.max); };
constexpr auto dim_of = [](auto& of, Step& s) { return add(s, of.dim); };
constexpr auto upscale_of = [](auto& of, Step& s) { return add(s, of.upscale_factor); };
constexpr auto downscale_of = [](auto& of, Step& s) { return add(s, of.downscale_factor); };
constexpr auto repeats_of = [](auto& of, Step& s) { return add(s, of.repeats); };
// How far, and then the number that it pads by. By nothing at all is a copy.
constexpr auto pad_of = [](auto& of, Step& s) {
  if (!add(s, of.pad)) return false;
  if (std::ranges::all_of(s.numbers, [](double size) { return size == 0; })) {
    s.op = Operator::copy;
    s.resizes = false;
    s.numbers.clear();
    return true;
  }
  const auto number = unsaved_numbers::find(of);
  return number && add(s, *number);
};
constexpr auto padding_of = [](auto& of, Step& s) { return add(s, of.padding); };
template <std::size_t rank>
constexpr auto window_of = [](auto& of, Step& s) { return add_window(s, of, rank); };
constexpr auto factor_of = [](auto& of, Step& s) { return add(s, of.scales); };
constexpr auto factors_of = [](auto& of, Step& s) { return add(s, of.scales_h, of.scales_w); };
constexpr auto three_factors_of = [](auto& of, Step& s) {
  return add(s, of.scales_d, of.scales_h, of.scales_w);
};
template <auto factors>
constexpr auto aligned =
    [](auto& of, Step& s) { return add(s, of.align_corners) && factors(of, s); };

// The operators, of the numbers that were added.

/// Calls the operator with the numbers of these indices, if any.
template <auto call, std::size_t... i>
void with_numbers(const Step& step, const at::Tensor& x, at::Tensor& y) {
  call(y, x, step.numbers[i]...);
}
template <auto call>
void with_integer(const Step& step, const at::Tensor& x, at::Tensor& y) {
  call(y, x, integer(step, 0));
}
template <at::Tensor& (*call)(at::Tensor&, const at::Tensor&, at::IntArrayRef)>
void with_integers(const Step& step, const at::Tensor& x, at::Tensor& y) {
  call(y, x, integers(step, 0, step.numbers.size()));
}
void clamp(const Step& step, const at::Tensor& x, at::Tensor& y) {
  at::clamp_out(y, x, step.numbers[0], step.numbers[1]);
}
void pad(const Step& step, const at::Tensor& x, at::Tensor& y) {
  at::constant_pad_nd_out(y, x, integers(step, 0, step.numbers.size() - 1), step.numbers.back());
}
template <auto call, std::size_t rank>
void average(const Step& step, const at::Tensor& x, at::Tensor& y) {
  const std::int64_t divisor = integer(step, 3 * rank + 2);
  call(y, x, integers(step, 0, rank), integers(step, rank, rank), integers(step, 2 * rank, rank),
       step.numbers[3 * rank] != 0, step.numbers[3 * rank + 1] != 0,
       divisor == 0 ? std::nullopt : std::optional(divisor));
}

// Of these there are several; these take sizes and factors.
using Factor = std::optional<double>;
constexpr at::Tensor& (*upsample_nearest2d)(at::Tensor&, const at::Tensor&, at::IntArrayRef, Factor,
                                            Factor) = at::upsample_nearest2d_out;
constexpr at::Tensor& (*upsample_bilinear2d)(at::Tensor&, const at::Tensor&, at::IntArrayRef, bool,
                                             Factor, Factor) = at::upsample_bilinear2d_out;

/// Makes images, which are of one dimension to three, as large as `y`.
template <auto call, std::size_t... i>
void upsample(const Step& step, const at::Tensor& x, at::Tensor& y) {
  call(y, x, y.sizes().slice(2), step.given(i)...);
}
template <auto call, std::size_t... i>
void upsample_aligned(const Step& step, const at::Tensor& x, at::Tensor& y) {
  call(y, x, y.sizes().slice(2), step.numbers[0] != 0, step.given(i)...);
}

/// One row of the table. @tparam Of The node's type @tparam describe What it says of the operator
/// @tparam call Null if `describe` names an operator of Recipe's
template <typename Of, auto describe, Recipe::Call call = nullptr>
Row row() {
  Function made;
  if constexpr (requires(Of & of) { of.self_; }) {
    made.operand = [](Node& node) { return &static_cast<Of&>(node).self_; };
  }
  made.describe = [](Node& node, Step& step) {
    step.call = call;
    return describe(static_cast<Of&>(node), step);
  };
  return {typeid(Of), made};
}

/// One whose node saves its result.
template <typename Of, auto describe, Recipe::Call call = nullptr>
Row with_result() {
  Row made = row<Of, describe, call>();
  made.second.result = [](Node& node) { return &static_cast<Of&>(node).result_; };
  return made;
}

/// One whose result has other sizes than its operand. @tparam reads Whether backward reads that:
/// most nodes save it for its sizes alone
template <typename Of, auto describe, Recipe::Call call, bool reads = false>
Row resizing() {
  Row made = row<Of, describe, call>();
  made.second.resizes = true;
  if (!reads) made.second.operand = nullptr;
  return made;
}

}  // namespace

const std::unordered_map<std::type_index, Function>& functions() {
  using namespace torch::autograd::generated;
  static const std::unordered_map<std::type_index, Function> all = {
      row<GeluBackward0, gelu_of>(),
      row<SiluBackward0, silu_of>(),
      with_result<TanhBackward0, tanh_of>(),
      row<PowBackward0, power_of>(),
      with_result<SigmoidBackward0, nothing, with_numbers<at::sigmoid_out>>(),
      row<HardswishBackward0, nothing, with_numbers<at::hardswish_out>>(),
      row<HardsigmoidBackward0, nothing, with_numbers<at::hardsigmoid_out>>(),
      row<MishBackward0, nothing, with_numbers<at::mish_out>>(),
      row<NegBackward0, nothing, with_numbers<at::neg_out>>(),
      row<AbsBackward0, nothing, with_numbers<at::abs_out>>(),
      row<SinBackward0, magnifying, with_numbers<at::sin_out>>(),
      row<CosBackward0, magnifying, with_numbers<at::cos_out>>(),
      with_result<ExpBackward0, magnifying, with_numbers<at::exp_out>>(),
      row<LeakyReluBackward0, slope_of, with_numbers<at::leaky_relu_out, 0>>(),
      // Backward1 is the operator in place.
      row<LeakyReluBackward1, slope_of, with_numbers<at::leaky_relu_out, 0>>(),
      row<CeluBackward0, alpha_of, with_numbers<at::celu_out, 0>>(),
      row<CeluBackward1, alpha_of, with_numbers<at::celu_out, 0>>(),
      row<EluBackward0, elu_of, with_numbers<at::elu_out, 0, 1, 2>>(),
      row<EluBackward1, elu_of, with_numbers<at::elu_out, 0, 1, 2>>(),
      row<SoftplusBackward0, softplus_of, with_numbers<at::softplus_out, 0, 1>>(),
      row<HardtanhBackward0, hardtanh_of, clamp>(),
      row<ClampBackward1, bounds_of, clamp>(),
      row<ClampMinBackward0, least_of, clamp>(),
      row<ClampMaxBackward0, most_of, clamp>(),
      resizing<GluBackward0, dim_of, with_integer<at::glu_out>, true>(),
      resizing<PixelShuffleBackward0, upscale_of, with_integer<at::pixel_shuffle_out>>(),
      resizing<PixelUnshuffleBackward0, downscale_of, with_integer<at::pixel_unshuffle_out>>(),
      resizing<RepeatBackward0, repeats_of, with_integers<at::repeat_out>>(),
      resizing<ConstantPadNdBackward0, pad_of, pad>(),
      resizing<ReflectionPad1DBackward0, padding_of, with_integers<at::reflection_pad1d_out>>(),
      resizing<ReflectionPad2DBackward0, padding_of, with_integers<at::reflection_pad2d_out>>(),
      resizing<ReflectionPad3DBackward0, padding_of, with_integers<at::reflection_pad3d_out>>(),
      resizing<ReplicationPad1DBackward0, padding_of, with_integers<at::replication_pad1d_out>>(),
      resizing<ReplicationPad2DBackward0, padding_of, with_integers<at::replication_pad2d_out>>(),
      resizing<ReplicationPad3DBackward0, padding_of, with_integers<at::replication_pad3d_out>>(),
      resizing<AvgPool2DBackward0, window_of<2>, average<at::avg_pool2d_out, 2>>(),
      resizing<AvgPool3DBackward0, window_of<3>, average<at::avg_pool3d_out, 3>>(),
      resizing<UpsampleNearest1DBackward0, factor_of, upsample<at::upsample_nearest1d_out, 0>>(),
      resizing<UpsampleNearest2DBackward0, factors_of, upsample<upsample_nearest2d, 0, 1>>(),
      resizing<UpsampleNearest3DBackward0, three_factors_of,
               upsample<at::upsample_nearest3d_out, 0, 1, 2>>(),
      resizing<UpsampleNearestExact1DBackward0, factor_of,
               upsample<at::_upsample_nearest_exact1d_out, 0>>(),
      resizing<UpsampleNearestExact2DBackward0, factors_of,
               upsample<at::_upsample_nearest_exact2d_out, 0, 1>>(),
      resizing<UpsampleNearestExact3DBackward0, three_factors_of,
               upsample<at::_upsample_nearest_exact3d_out, 0, 1, 2>>(),
      resizing<UpsampleLinear1DBackward0, aligned<factor_of>,
               upsample_aligned<at::upsample_linear1d_out, 1>>(),
      resizing<UpsampleBilinear2DBackward0, aligned<factors_of>,
               upsample_aligned<upsample_bilinear2d, 1, 2>>(),
      resizing<UpsampleBicubic2DBackward0, aligned<factors_of>,
               upsample_aligned<at::upsample_bicubic2d_out, 1, 2>>(),
      resizing<UpsampleTrilinear3DBackward0, aligned<three_factors_of>,
               upsample_aligned<at::upsample_trilinear3d_out, 1, 2, 3>>(),
  };
  return all;
}

}  // namespace cinch::hooks
