// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace cinch::policy {

/// AC-GC's error bounds (Evans & Aamodt, NeurIPS 2021, Table 1): the largest error of
/// an activation's elements, squared, that keeps the error of the gradient it is read for within
/// e2 times that gradient's square. All are ratios: a loss scale cancels out.

/// A convolution or linear layer that reads the activation. Of one activation read by several, each
/// is a term.
struct AcgcTerm {
  double weight_gradient = 0;  ///< V^2 = |gW|^2
  double output_gradient = 0;  ///< |gY|^2
  double kernel = 1;           ///< R S, the kernel's positions
  double stride = 1;           ///< T^2, the product of the strides
};

/// e2 sum(V^2) / (2 elements sum(RS/T^2 |gY|^2)), elements being M C (linear: N C).
/// 0 when nothing is known (no output gradient, or no weight gradient).
double acgc_product_bound(std::span<const AcgcTerm> terms, double elements, double e2) noexcept;

/// acgc.mode=expected: the bound for which the error's square is e2 V^2 in expectation, for
/// stochastic rounding (variance at most a quarter of the step's square). Not the paper's
/// guarantee.
double acgc_expected_bound(std::span<const AcgcTerm> terms, double channels, double e2) noexcept;

/// A batch norm's channel.
struct AcgcChannel {
  double gamma = 1;
  double sigma = 1;            ///< sqrt(var + eps) = 1 / invstd
  double gamma_gradient = 0;   ///< g_gamma
  double output_gradient = 0;  ///< |gY_c|^2
};

/// |gX|^2 of a batch norm in training over `count` elements a channel, from its channels and the
/// sums of gY in each.
double batch_norm_input_gradient(const AcgcChannel& channel, double gradient_sum,
                                 double count) noexcept;

/// min(sigma^2, e2 V^2 M sigma^4 / (C gamma^2 g^2)), g^2 = g_gamma^2 + 2 |gY_c|^2. Table 1C's
/// g_gamma^2 alone breaks the bound where it is small. @param input_gradient V^2 = |gX|^2 over all
/// channels
double acgc_batch_norm_bound(const AcgcChannel& channel, double input_gradient, double count,
                             double channels, double e2) noexcept;

/// Sums over the rows of a layer norm's input, C features each, with z = gamma gY.
struct AcgcRows {
  double rows = 0;
  double features = 0;        ///< C
  double input_gradient = 0;  ///< V^2 = |gX|^2
  double sensitivity = 0;     ///< sum over rows of g_n^2 / sigma_n^4, g_n^2 = (z.x)^2 + 2 |z|^2
  double least_variance = 0;  ///< smallest sigma_n^2
};

/// One bound for all rows: e2 V^2 C / sensitivity, at most the least variance. With a bound for
/// each row, each would spend its share e2 V^2 / rows; a bound for all spends the sum.
double acgc_layer_norm_bound(const AcgcRows& rows, double e2) noexcept;

}  // namespace cinch::policy
