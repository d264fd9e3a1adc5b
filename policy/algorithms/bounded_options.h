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

/// The choices with an error bound that "budget" offers for a layer of this kind: values are to be
/// as far off, by their mean square, as so many bits in groups put them (CodecSpec::bits). Which
/// bound that is, its values tell: until then it is 1 and stands for nothing.
std::vector<Choice> bounded_menu(LayerKind kind);

/// What is known of one layer's choices with an error bound: the bounds, and what each takes and
/// does, which trials alone tell. Pure arithmetic.
class BoundedOptions {
 public:
  /// Those of its menu, which may have been changed by nobody else since `bounded_menu` made them.
  explicit BoundedOptions(const Layer& layer);

  /// What trials found: bounds, which are written into `layer`'s menu, follow the values of groups'
  /// trials where they are off by more than a factor; noises and sizes follow their own trials.
  void follow(const Look& look, Layer& layer);

  /// An activation held by the choice of this index took so many bytes. @return whether that is
  /// clearly more than was expected
  bool note_size(std::uint32_t index, std::size_t bytes);

  /// Whether bounds are known and nobody saw yet what they do.
  bool wants_trial() const noexcept { return has_bounds_ && trials_ == 0; }

  /// Whether the choice of this index is worth a trial: its bound is known, and it was not tried,
  /// or it is its turn again and the guard would not object to what was found.
  bool is_worth_trial(std::uint32_t index, const GuardSettings& guard) const;

  /// Whether it was tried, takes less than the raw bytes, and the guard would not object to it.
  bool is_option(std::uint32_t index, const GuardSettings& guard) const;

  /// Bytes that it is expected to take: the most of late, so that what is chosen for its size keeps
  /// to it. 0: not known, or no choice with a bound.
  double bytes(std::uint32_t index) const;

  /// `hit` of its noise counting. @pre is_option
  double noise(std::uint32_t index, const Noise& hit) const;

  /// By names, for the state file; none where no bound is known.
  void add_numbers(Numbers& numbers) const;
  void recall(const Numbers& numbers, Layer& layer);

 private:
  struct Option {
    std::uint32_t index = 0;  // in the menu
    int bits = 0;             // whose errors it matches
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
