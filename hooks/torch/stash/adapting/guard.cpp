// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/guard.h"

#include <cmath>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "hooks/torch/stash/figures/listeners.h"

namespace cinch::hooks {
namespace {

constexpr std::uint64_t share_of_peak = 16;

template <typename T>
ValueError value_error_of(const void* exact, const void* decoded, std::size_t bytes) noexcept {
  const auto* x = static_cast<const T*>(exact);
  const auto* y = static_cast<const T*>(decoded);
  ValueError error;
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
    const auto value = static_cast<double>(x[i]);
    const auto restored = static_cast<double>(y[i]);
    if (!std::isfinite(value)) continue;
    if (!std::isfinite(restored)) {
      ++error.non_finite;
      continue;
    }
    difference += (restored - value) * (restored - value);
    size += value * value;
  }
  if (size > 0) error.relative = std::sqrt(difference / size);
  return error;
}

}  // namespace

ValueError value_error(const void* exact, const void* decoded, codecs::ElementType type,
                       std::size_t bytes) noexcept {
  switch (type) {
    case codecs::ElementType::float32:
      return value_error_of<float>(exact, decoded, bytes);
    case codecs::ElementType::bfloat16:
      return value_error_of<c10::BFloat16>(exact, decoded, bytes);
    case codecs::ElementType::float16:
      return value_error_of<c10::Half>(exact, decoded, bytes);
    case codecs::ElementType::float64:
      return value_error_of<double>(exact, decoded, bytes);
    default:
      return {};
  }
}

bool Guard::wants(EntryClass::Member& member, std::size_t raw_bytes, std::uint64_t step,
                  std::uint64_t raw_bytes_at_peak, const Kept& kept) {
  if (settings_.every_steps == 0) return false;
  if (step != step_) {
    step_ = step;
    // The first look is in the second step: by then the bytes of a step are known.
    due_ = step % settings_.every_steps == 1 % settings_.every_steps;
    bytes_ = kept_ = 0;
    if (due_) {
      if (!looked_) ++round_;
      looked_ = false;
    }
  }
  if (!due_ || member.checked == round_) return false;
  if (bytes_ != 0 && bytes_ + raw_bytes > raw_bytes_at_peak / share_of_peak) return false;
  if (kept_ + kept.bytes > kept.room) return false;
  member.checked = round_;
  bytes_ += raw_bytes;
  kept_ += kept.bytes;
  looked_ = true;
  return true;
}

void Guard::watch(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  nodes_.add(entry);
  listeners().watches(true);
}

void Guard::forget(const Use& use) noexcept {
  const std::lock_guard lock(mutex_);
  if (nodes_.remove(use)) listeners().watches(false);
}

bool Guard::is_watched(std::uint32_t sequence) const {
  const std::lock_guard lock(mutex_);
  return nodes_.contains(sequence);
}

}  // namespace cinch::hooks
