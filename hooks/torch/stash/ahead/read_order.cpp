// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/ahead/read_order.h"

#include <algorithm>
#include <utility>

namespace cinch::hooks {
namespace {

// Bounds memory: without an optimizer, all growths are in one step; and a program may read the same
// graph any number of times.
constexpr std::size_t most_growths = 16;
constexpr std::size_t most_reads = std::size_t{1} << 16;

}  // namespace

void ReadOrder::begin_growth(std::uint64_t step) {
  if (any_) {
    if (number_ >= steps_.size()) steps_.resize(number_ + 1);
    steps_[number_] = std::move(now_);
    now_.clear();
    number_ = step == step_ ? (number_ + 1) % most_growths : 0;
  }
  any_ = true;
  step_ = step;
  places_.clear();
  if (number_ >= steps_.size()) return;
  const auto& foretold = steps_[number_];
  for (std::size_t i = 0; i < foretold.size(); ++i) places_.try_emplace(key(foretold[i]), i);
}

void ReadOrder::add(Read read) {
  if (now_.size() < most_reads) now_.push_back(read);
}

std::span<const ReadOrder::Read> ReadOrder::after(Read read) const {
  const auto place = places_.find(key(read));
  if (place == places_.end()) return {};
  return std::span(steps_[number_]).subspan(place->second + 1);
}

}  // namespace cinch::hooks
