// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace cinch::policy {

/// AC-GC's error bounds (Evans & Aamodt, NeurIPS 2021, Table 1): the largest squared error of an
/// activation's elements that keeps the squared error of the gradient computed from it within e2
/// times that gradient's square. All are ratios, so a loss scale cancels out.

/// A convolution or linear layer that reads the activation. Each reader is a term.
struct AcgcTerm {
  double weight_gradient = 0;  ///< V^2 = |gW|^2
  double output_gradient = 0;  ///< |gY|^2
  double kernel = 1;           ///< R S, the kernel's positions
  double stride = 1;           ///< T^2, the product of the strides
};

/// e2 sum(V^2) / (2 elements sum(RS/T^2 |gY|^2)), elements being M C (linear: N C).
/// 0 when nothing is known (no output gradient, or no weight gradient).
double acgc_product_bound(std::span<const AcgcTerm> terms, double elements, double e2) noexcept;

/// The bound of acgc.mode=expected: the gradient's squared error is e2 V^2 in expectation, under
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

/// One channel's part of |gX|^2 of a batch norm in training, over `count` elements a channel.
/// @param gradient_sum Sum of the channel's gY
double batch_norm_input_gradient(const AcgcChannel& channel, double gradient_sum,
                                 double count) noexcept;

/// min(sigma^2, e2 V^2 M sigma^4 / (C gamma^2 g^2)), g^2 = g_gamma^2 + 2 |gY_c|^2. Table 1C's
/// g_gamma^2 alone breaks the bound where g_gamma is small. @param input_gradient V^2 = |gX|^2 over
/// all channels
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

/// One bound for all rows: e2 V^2 C / sensitivity, at most the least variance. Bounds by row would
/// allow an error of e2 V^2 / rows in each row; one bound for all allows their sum.
double acgc_layer_norm_bound(const AcgcRows& rows, double e2) noexcept;

}  // namespace cinch::policy
