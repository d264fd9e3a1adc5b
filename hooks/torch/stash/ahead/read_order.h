// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "codecs/codec.h"

namespace cinch::hooks {

/// Predicts what backward reads next from the order of reads in the last step.
///
/// An entry's position is its number in its growth (the saves between two backwards). A step may
/// have several growths (a GAN's has two); each is predicted from the growth of the same number in
/// the last step. If the program's graph changes, predictions may be wrong, which costs time only.
/// Not thread-safe.
class ReadOrder {
 public:
  struct Read {
    std::uint32_t position = 0;
    codecs::Reads reads = codecs::Reads::values;
    bool operator==(const Read&) const = default;
  };

  /// A growth begins. @param step The optimizer step that it belongs to.
  void begin_growth(std::uint64_t step);

  /// Records a read in the current growth.
  void add(Read read);

  /// The reads that followed `read` in the last step, in order; empty where they aren't known.
  std::span<const Read> after(Read read) const;

 private:
  static std::uint64_t key(Read read) noexcept {
    return std::uint64_t{read.position} * codecs::kReadsCount +
           static_cast<std::uint64_t>(read.reads);
  }

  std::vector<std::vector<Read>> steps_;                   // by the growth's number in its step
  std::unordered_map<std::uint64_t, std::size_t> places_;  // of reads in steps_[number_]
  std::vector<Read> now_;
  std::size_t number_ = 0;
  std::uint64_t step_ = 0;
  bool any_ = false;
};

}  // namespace cinch::hooks
