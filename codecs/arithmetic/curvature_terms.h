// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/arithmetic/curvature.h"
#include "codecs/float_formats.h"
#include "codecs/host_device.h"

/// The arithmetic of curvature.h for one element: the specification that all engines follow, so
/// that they give equal bits. Each product and sum is rounded, but for those in fused().
///
/// `Machine` has reciprocal(x), which is 1 / x rounded to nearest, least(x, bound) and positive(x),
/// which is max(x, +0). Of NaN they may give any number.
namespace cinch::codecs::curvature {

/// exp(-x) is taken to be no smaller than for this x: what it is multiplied by stays finite so.
inline constexpr float kFlat = 80.0F;

inline constexpr float kLog2E = 1.44269504F;

/// Added to a number and subtracted again, it rounds that to an integer, which is then in the lower
/// bits of the sum.
inline constexpr float kRounds = 0x1.8p23F;

/// 2^f to 2e-6 of it, for |f| <= 1/2: coefficients of its Taylor polynomial, behind 1.
inline constexpr float kPower5 = 1.33335581e-3F;
inline constexpr float kPower4 = 9.61812911e-3F;
inline constexpr float kPower3 = 5.55041087e-2F;
inline constexpr float kPower2 = 2.40226507e-1F;
inline constexpr float kPower1 = 6.93147181e-1F;

/// The normal distribution beyond a, to 1e-7 (Abramowitz and Stegun, 7.1.26): exp(-a^2 / 2) times a
/// polynomial in t = 1 / (1 + kTail a), whose coefficients these are.
inline constexpr float kTail = 0.23164189F;
inline constexpr float kTail5 = 0.530702715F;
inline constexpr float kTail4 = -0.726576014F;
inline constexpr float kTail3 = 0.710706871F;
inline constexpr float kTail2 = -0.142248368F;
inline constexpr float kTail1 = 0.127414796F;
inline constexpr float kDensityAt0 = 0.39894228F;

/// What GELU's approximation takes tanh of: kSlope (x + kCube x^3).
inline constexpr float kSlope = 0.79788456F;
inline constexpr float kCube = 0.044715F;

/// What f''(x) is multiplied by in a group of this step.
CINCH_HD inline float factor(float step) noexcept {
  return step * step * (1.0F / 24);
}

/// a * b + c, rounded once.
CINCH_HD inline float fused(float a, float b, float c) noexcept {
  return __builtin_fmaf(a, b, c);
}

/// 2^(scale x), to within 4e-6 of it. @param scale -kLog2E for exp(-x)
/// @pre 0 <= -scale x < 126
CINCH_HD inline float power(float x, float scale) noexcept {
  const float sum = fused(x, scale, kRounds);
  const float f = fused(x, scale, -(sum - kRounds));
  float p = kPower5;
  p = fused(p, f, kPower4);
  p = fused(p, f, kPower3);
  p = fused(p, f, kPower2);
  p = fused(p, f, kPower1);
  p = fused(p, f, 1.0F);
  return float_of_bits(float_bits(p) + (float_bits(sum) << 23));
}

/// Of a = |x|, with f(x) = max(x, 0) - a tail: how far f is from ReLU, and f''(x), which is even.
struct AtDistance {
  float tail;
  float second;
};

template <class Machine>
CINCH_HD inline AtDistance of_gelu(float a) noexcept {
  const float square = Machine::least(a * a, 2 * kFlat);
  const float bell = power(square, -0.5F * kLog2E);
  const float t = Machine::reciprocal(fused(a, kTail, 1.0F));
  float p = kTail5;
  p = fused(p, t, kTail4);
  p = fused(p, t, kTail3);
  p = fused(p, t, kTail2);
  p = fused(p, t, kTail1);
  return {p * t * bell, bell * kDensityAt0 * (2.0F - square)};
}

/// Its tail is 1 / (1 + exp(2 u)), u what tanh is taken of; its curvature nearly GELU's.
template <class Machine>
CINCH_HD inline AtDistance of_gelu_tanh(float a) noexcept {
  const float square = a * a;
  const float twice = fused(square, kCube, 1.0F) * a * (2 * kSlope);
  const float e = power(Machine::least(twice, kFlat), -kLog2E);
  const float flat = Machine::least(square, 2 * kFlat);
  const float bell = power(flat, -0.5F * kLog2E);
  return {e * Machine::reciprocal(1.0F + e), bell * kDensityAt0 * (2.0F - flat)};
}

template <class Machine>
CINCH_HD inline AtDistance of_silu(float distance) noexcept {
  const float a = Machine::least(distance, kFlat);
  const float e = power(a, -kLog2E);
  const float r = Machine::reciprocal(1.0F + e);
  const float tail = e * r;
  const float slope = a * (1.0F - e) * r;
  return {tail, tail * r * (2.0F - slope)};
}

template <Smooth function, class Machine>
CINCH_HD inline AtDistance at_distance(float a) noexcept {
  if constexpr (function == Smooth::gelu) return of_gelu<Machine>(a);
  if constexpr (function == Smooth::gelu_tanh) return of_gelu_tanh<Machine>(a);
  if constexpr (function == Smooth::silu) return of_silu<Machine>(a);
}

/// f(x) - factor f''(x)
template <Smooth function, class Machine>
CINCH_HD inline float without_bias(float x, float factor) noexcept {
  const float a = __builtin_fabsf(x);
  const AtDistance at = at_distance<function, Machine>(a);
  return fused(-at.second, factor, fused(-a, at.tail, Machine::positive(x)));
}

}  // namespace cinch::codecs::curvature
