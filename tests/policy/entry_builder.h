// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "policy/entry.h"

namespace cinch::policy {

using Dims = std::vector<std::int64_t>;

/// Strides of a contiguous tensor.
inline Dims contiguous(const Dims& sizes) {
  Dims strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
  return strides;
}

/// Strides of a channels-last tensor (N, C, plane…).
inline Dims channels_last(const Dims& sizes) {
  Dims strides(sizes.size());
  std::int64_t stride = sizes[1];
  for (std::size_t i = sizes.size(); i-- > 2; stride *= sizes[i]) strides[i] = stride;
  strides[1] = 1;
  strides[0] = stride;
  return strides;
}

inline std::int64_t count(const Dims& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

/// Builds entry descriptions, and owns what they point at.
class EntryBuilder {
 public:
  using Type = codecs::ElementType;

  EntryBuilder() = default;
  EntryBuilder(const EntryBuilder&) = delete;  // what it built points into it
  EntryBuilder& operator=(const EntryBuilder&) = delete;

  EntryBuilder& use(std::string_view op, std::string_view operand, Dims sizes, Dims strides = {},
                    std::int64_t offset = 0, Type type = Type::float32) {
    uses_.push_back({op,
                     operand,
                     operand.starts_with("result"),
                     type,
                     geometry(std::move(sizes), std::move(strides), offset),
                     {0, 0, 0},
                     Origin::op,
                     {0, 0}});
    return *this;
  }
  EntryBuilder& typed(Type type) {
    uses_.back().type = type;
    return *this;
  }
  /// The last use's elements are complex numbers, with parts of its type.
  EntryBuilder& complex() {
    uses_.back().is_complex = true;
    return *this;
  }
  EntryBuilder& magnified() {
    uses_.back().is_magnified = true;
    return *this;
  }
  EntryBuilder& of_linear_layer() {
    uses_.back().is_linear_output = true;
    return *this;
  }
  EntryBuilder& recomputed() {
    uses_.back().is_recomputed = true;
    return *this;
  }
  EntryBuilder& from(Origin origin) {
    uses_.back().origin = origin;
    return *this;
  }
  EntryBuilder& read_as(std::vector<BackwardRead> reads) {
    uses_.back().reads = reads_.emplace_back(std::move(reads));
    return *this;
  }
  EntryBuilder& index_extent(std::array<std::int64_t, 3> extent) {
    uses_.back().index_extent = extent;
    return *this;
  }
  /// The operator's second and third argument.
  EntryBuilder& numbers(float second, float third = std::numeric_limits<float>::quiet_NaN()) {
    uses_.back().numbers = {second, third};
    return *this;
  }
  EntryBuilder& for_recipe() {
    uses_.back().is_recipes = true;
    return *this;
  }
  EntryBuilder& as_argument() {
    uses_.back().is_argument = true;
    return *this;
  }
  EntryBuilder& raised(float exponent) {
    uses_.back().exponent = exponent;
    return *this;
  }
  EntryBuilder& cover(Dims sizes) {
    cover_ = geometry(std::move(sizes), {}, 0);
    return *this;
  }
  EntryBuilder& bytes(std::size_t bytes) {
    bytes_ = bytes;
    return *this;
  }
  EntryBuilder& on_device() {
    on_device_ = true;
    return *this;
  }
  /// Without a word about the storage's size, the first use fills it.
  EntryDescription build() const {
    const Use& first = uses_.front();
    std::size_t bytes = bytes_;
    if (bytes == 0) {
      bytes = codecs::element_size(first.type) * (first.is_complex ? 2 : 1) *
              static_cast<std::size_t>(
                  count({first.geometry.sizes.begin(), first.geometry.sizes.end()}));
    }
    return {bytes, uses_, cover_, nullptr, on_device_};
  }

 private:
  Geometry geometry(Dims sizes, Dims strides, std::int64_t offset) {
    if (strides.empty()) strides = contiguous(sizes);
    const Dims& s = dims_.emplace_back(std::move(sizes));
    const Dims& t = dims_.emplace_back(std::move(strides));
    return {s, t, offset};
  }

  std::deque<Dims> dims_;
  std::deque<std::vector<BackwardRead>> reads_;
  std::vector<Use> uses_;
  Geometry cover_;
  std::size_t bytes_ = 0;
  bool on_device_ = false;
};

}  // namespace cinch::policy
