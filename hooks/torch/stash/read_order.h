// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "codecs/codec.h"

namespace cinch::hooks {

/// Foretells what backward reads next from the order in which the last step's backward read.
///
/// Entries are known by position: how many the stash's growth (the saves between two backwards) had
/// before them. A step may have several growths, as a GAN's has two; each is foretold from the
/// growth of the same number in the step before. Programs whose graph changes are foretold wrongly
/// now and then, which costs time only. Not thread-safe.
class ReadOrder {
 public:
  struct Read {
    std::uint32_t position = 0;
    codecs::Reads reads = codecs::Reads::values;
    bool operator==(const Read&) const = default;
  };

  /// A growth begins. @param step The optimizer step that it belongs to.
  void begin_growth(std::uint64_t step);

  /// Notes that backward reads `read` of the current growth.
  void add(Read read);

  /// What was read after `read` the last time, nearest first; empty when that is not known.
  std::span<const Read> after(Read read) const;

 private:
  static std::uint64_t key(Read read) noexcept {
    return std::uint64_t{read.position} * codecs::kReadsCount +
           static_cast<std::uint64_t>(read.reads);
  }

  std::vector<std::vector<Read>> steps_;                   // by the growth's number in its step
  std::unordered_map<std::uint64_t, std::size_t> places_;  // of the foretold growth's reads
  std::vector<Read> now_;
  std::size_t number_ = 0;
  std::uint64_t step_ = 0;
  bool any_ = false;
};

}  // namespace cinch::hooks
