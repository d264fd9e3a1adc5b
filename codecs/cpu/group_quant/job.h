// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/codec.h"
#include "codecs/cpu/stream.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/group_quant.h"

namespace cinch::codecs::cpu {

/// The offset of each plane's codes, and its bits.
class PlaneCodes {
 public:
  /// @pre `sums` outlives this: it holds the running sums
  PlaneCodes(std::int64_t begin, std::int64_t plane_size, int bits,
             std::span<const std::uint8_t> plane_bits, Buffer& sums) noexcept
      : begin_(begin), plane_size_(plane_size), bits_(bits), plane_bits_(plane_bits) {
    if (plane_bits.empty()) return;
    const auto planes = static_cast<std::int64_t>(plane_bits.size());
    sums_ = sums.get<std::int64_t>(planes / kEvery + 1);
    if (sums_ == nullptr) return;
    std::int64_t at = begin;
    for (std::int64_t p = 0; p < planes; ++p) {
      if (p % kEvery == 0) sums_[p / kEvery] = at;
      at += group_quant_code_bytes(plane_size, plane_bits[p]);
    }
  }

  /// False when memory ran out.
  bool good() const noexcept { return plane_bits_.empty() || sums_ != nullptr; }

  int bits(std::int64_t plane) const noexcept {
    return plane_bits_.empty() ? bits_ : plane_bits_[plane];
  }

  std::int64_t begin(std::int64_t plane) const noexcept {
    if (plane_bits_.empty()) return begin_ + plane * group_quant_code_bytes(plane_size_, bits_);
    std::int64_t at = sums_[plane / kEvery];
    for (std::int64_t p = plane / kEvery * kEvery; p < plane; ++p) {
      at += group_quant_code_bytes(plane_size_, plane_bits_[p]);
    }
    return at;
  }

 private:
  static constexpr std::int64_t kEvery = 16;

  std::int64_t begin_;
  std::int64_t plane_size_;
  int bits_;
  std::span<const std::uint8_t> plane_bits_;
  std::int64_t* sums_ = nullptr;
};

/// Facts that all tasks of one encode or decode share.
struct GroupQuantJob {
  const Description& what;
  std::int64_t group;
  GroupQuantSections sections;
  PlaneCodes codes;
  RandomKey key;  ///< decode: meaningful only if `subtractive`
  bool subtractive;
  float floor;         ///< encode
  bool roots;          ///< codes are of square roots
  bool zero_code;      ///< code 0 is for what is not above 0
  bool signs = false;  ///< decode: 1 where codes are not 0, else 0
  bool past_caches;    ///< decode: whether dense planes are written past the caches

  GroupQuantJob(const Description& description, const GroupQuantParameters& parameters,
                std::span<const std::uint8_t> plane_bits, RandomKey random_key,
                Buffer& sums) noexcept
      : what(description),
        group(parameters.group),
        sections(parameters, description.layout, plane_bits),
        codes(sections.codes, description.layout.plane_size(), parameters.bits, plane_bits, sums),
        key(random_key),
        subtractive(parameters.subtractive),
        floor(parameters.floor),
        roots(parameters.roots),
        zero_code(parameters.zero_code),
        past_caches(writes_past_caches(description)) {}

  /// Decode: whether values need the draws of the encoding.
  bool has_draws() const noexcept { return subtractive && !signs; }
};

/// Elements whose codes, draws and values fit into the L1 cache together.
inline constexpr std::int64_t kStretchElements = 2048;
/// Bytes for the codes of a stretch, for padding of its first and last eight, and for a vector.
inline constexpr std::int64_t kCodesRoom = kStretchElements + 1024;

}  // namespace cinch::codecs::cpu
