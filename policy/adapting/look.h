// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/adapting/layer.h"

namespace cinch::policy {

/// Measurements at one backward node, for an activation that it reads. Gradients carry the
/// program's loss scale, so policies use only ratios within one look or one step.
struct Look {
  /// A batch norm's channel.
  struct Channel {
    double gamma = 1;
    double inverse_sigma = 1;
    double gamma_gradient = 0;   ///< g_gamma
    double output_gradient = 0;  ///< |gY_c|^2
    double gradient_sum = 0;     ///< sum of gY
  };

  LayerKind kind = LayerKind::other;  ///< of the node
  double output_gradient = 0;         ///< |gY|^2
  double peak_gradient = 0;           ///< mean over samples of max |gY_n|
  double samples = 1;                 ///< first extent of gY
  double weight_gradient = 0;         ///< |gW|^2; 0 if the weight takes no gradient
  double momentum = 0;                ///< mean magnitude of gW's moving average; 0 unknown
  double kernel = 1;                  ///< convolution: positions of the kernel
  double stride = 1;                  ///< convolution: product of the strides
  double locations = 1;               ///< convolution: positions of the input's plane
  double groups = 1;                  ///< convolution
  double outputs = 1;                 ///< output channels or features
  double nonzero = 1;                 ///< share of the activation that is not 0
  std::vector<Channel> channels;      ///< batch norm in training
  // Layer norm; see AcgcRows.
  double rows = 0;
  double features = 0;
  double row_input_gradient = 0;
  double row_sensitivity = 0;
  double least_variance = 0;
  /// Number of the layer whose output this one normalizes (batch norm after convolution);
  /// no_layer if not known.
  std::uint32_t producer = 0xffffffff;
  /// Sum of the squared ranges of group_quant's groups in each plane of the activation.
  std::vector<float> plane_ranges;
  /// Squared errors of the node's gradients when the activation is held by one choice of the menu,
  /// relative to the exact gradients; below 0 if not tried.
  struct Trial {
    double own = -1;  ///< of the parameters' gradients, taken together; 0 where it has none
    /// Of the gradients passed on, taken together; 0 if they don't depend on the activation.
    double passed = -1;
    double passed_worst = -1;  ///< the largest among those passed on

    bool was_tried() const noexcept { return own >= 0 || passed >= 0; }
  };
  std::vector<Trial> trials;  ///< by index into the layer's menu
  /// In a look with trials: the squared size of the parameters' exact gradients.
  double own_gradient = 0;
  /// Squared size of the gradient that the node passes on, as a share of the sum that the receiving
  /// node gets: below 1 where others, such as a skip connection's, are added. 0: not measured.
  double share_of_sum = 0;
};

inline constexpr std::uint32_t no_layer = 0xffffffff;

/// What the looks of a step shall measure. Each item costs time or memory, so policies ask in few
/// steps only.
struct Wants {
  bool gradients = false;   ///< Look's gradients and the figures beside them
  bool momentum = false;    ///< follow the weights' gradients, for Look::momentum
  bool values = false;      ///< Look::nonzero, and the figures of layer norms
  bool ranges = false;      ///< Look::plane_ranges
  bool trials = false;      ///< Look::trials, of the layers that Director::tries names
  bool weights = false;     ///< Look::weight_gradient, no other gradients
  bool parameters = false;  ///< no look, but the leaves that take gradients, and their bytes

  bool anything() const noexcept {
    return gradients || momentum || values || ranges || trials || weights || parameters;
  }
};

/// What the stash held of one growth (from the first save after a backward to the next backward)
/// at the growth's peak.
struct Footprint {
  /// An entry that is computed from others when backward reads it.
  struct Derived {
    std::uint32_t layer = no_layer;
    std::size_t bytes = 0;  ///< of what is stored for it, such as a mask
    /// Layers; those that the policy does not choose are left out.
    std::vector<std::uint32_t> sources;
    bool is_slow = false;  ///< takes much longer than decoding, as attention does on the host
  };
  std::vector<std::uint32_t> layers;  ///< of the entries that have one, in the forward's order
  std::vector<Derived> derived;       ///< those of them that are derived
  std::size_t other_bytes = 0;        ///< planned bytes of the other entries
  std::size_t planned_bytes = 0;      ///< planned bytes of all entries
  std::size_t raw_bytes = 0;          ///< of all entries, uncompressed
  std::size_t stored_bytes = 0;       ///< of all entries: raw in the window, as planned outside it

  /// Adds a layer where it belongs: entries are planned as the program lets go of them.
  /// @param saved The entry's number, in the order of saves
  /// @throws std::bad_alloc, and nothing has changed then
  void add(std::uint32_t layer, std::uint32_t saved) {
    for (auto* each : {&saved_, &layers}) {
      if (each->size() == each->capacity()) each->reserve(2 * each->size() + 8);
    }
    const auto place = std::ranges::upper_bound(saved_, saved) - saved_.begin();
    saved_.insert(saved_.begin() + place, saved);
    layers.insert(layers.begin() + place, layer);
  }

 private:
  std::vector<std::uint32_t> saved_;
};

}  // namespace cinch::policy
