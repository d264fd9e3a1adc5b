// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/algorithms/measured_noise.h"
#include "policy/director.h"
#include "policy/layer.h"
#include "policy/look.h"

namespace cinch::policy {

/// The choices with an error bound that "budget" offers for a layer of this kind. The mean square
/// error of values shall be that of group quantization at CodecSpec::bits. Trials find the bound
/// for that; until then `error_bound` is 1, a placeholder.
std::vector<Choice> bounded_menu(LayerKind kind);

/// One layer's choices with an error bound: their bounds, encoded sizes and noise. Only trials can
/// measure size and noise. Pure arithmetic.
class BoundedOptions {
 public:
  /// Takes these choices from the layer's menu. @pre they are as `bounded_menu` made them
  explicit BoundedOptions(const Layer& layer);

  /// Takes the results of trials. Noise and size of a choice follow its own trials. Bounds follow
  /// the values' errors in trials of groups once they differ by more than a factor, and are written
  /// into `layer`'s menu.
  void follow(const Look& look, Layer& layer);

  /// Notes the encoded size of an activation held by the choice of this index. @return whether it
  /// is clearly more than expected
  bool note_size(std::uint32_t index, std::size_t bytes);

  /// Whether bounds are known and no look with trials came after the first bounds.
  bool wants_trial() const noexcept { return has_bounds_ && trials_ == 0; }

  /// Whether to try the choice of this index: its bound is known, and either it was never tried, or
  /// it is its turn again and its errors are within the guard's limit, with a margin.
  bool is_worth_trial(std::uint32_t index, const GuardSettings& guard) const;

  /// Whether it was tried, takes less than the raw bytes, and keeps to that limit.
  bool is_option(std::uint32_t index, const GuardSettings& guard) const;

  /// Its expected encoded size: the largest of late, so that a choice made for its size keeps to
  /// it. 0: not known, or no choice with a bound.
  double bytes(std::uint32_t index) const;

  /// Its noise, weighted by `hit`. @pre is_option
  double noise(std::uint32_t index, const Noise& hit) const;

  /// Adds its figures for the state file; none where no bound is known.
  void add_numbers(Numbers& numbers) const;
  void recall(const Numbers& numbers, Layer& layer);

 private:
  struct Option {
    std::uint32_t index = 0;  // in the menu
    int bits = 0;             // of groups, whose error the bound matches
    float bound = 0;          // 0: not known
    double bytes = 0;         // 0: not known
    MeasuredNoise noise = {};
  };
  const Option* find(std::uint32_t index) const;
  void set_bounds(double values_at_one_level, Layer& layer);

  std::vector<Option> options_;
  std::size_t raw_bytes_;
  bool has_bounds_ = false;
  std::uint32_t trials_ = 0;
};

}  // namespace cinch::policy
