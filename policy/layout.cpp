// SPDX-License-Identifier: Apache-2.0
#include "policy/layout.h"

#include <algorithm>

namespace cinch::policy {
namespace {

using codecs::PlaneLayout;

/// Index of the dimension with the smallest stride >= `above` among those longer than 1, or -1.
int next_dimension(const Geometry& g, std::int64_t above) noexcept {
  int best = -1;
  for (int i = 0; i < static_cast<int>(g.sizes.size()); ++i) {
    if (g.sizes[i] <= 1 || g.strides[i] < above) continue;
    if (best < 0 || g.strides[i] < g.strides[best]) best = i;
  }
  return best;
}

/// Length of the contiguous run that starts at the first element. Stops at the first length of at
/// least `enough`.
std::int64_t contiguous_run(const Geometry& g, std::int64_t enough) noexcept {
  std::int64_t run = 1;
  while (run < enough) {
    const int next = next_dimension(g, run);
    if (next < 0 || g.strides[next] != run) break;
    run *= g.sizes[next];
  }
  return run;
}

/// How many of `rows` neighbours of a feature share a group, so that all groups are whole:
/// `wanted`, or else a number near it. Devices are slow with other numbers than powers of two. 0:
/// none
std::int64_t rows_of_group(std::int64_t rows, std::int64_t wanted, bool on_device) noexcept {
  constexpr std::int64_t step = 8, furthest = 8;  // what groups are multiples of; times longer
  if (rows % wanted == 0) return wanted;
  if (on_device) return wanted % (2 * step) == 0 && rows % (wanted / 2) == 0 ? wanted / 2 : 0;
  for (std::int64_t group = wanted; group <= std::min(rows, furthest * wanted); group += step) {
    if (rows % group == 0) return group;
  }
  for (std::int64_t group = wanted; 2 * group >= wanted; group -= step) {
    if (rows % group == 0) return group;
  }
  return 0;
}

}  // namespace

Pairs::Pairs(const Geometry& of_numbers)
    : sizes_(of_numbers.sizes.begin(), of_numbers.sizes.end()), offset_(2 * of_numbers.offset) {
  sizes_.push_back(2);
  for (const std::int64_t stride : of_numbers.strides) strides_.push_back(2 * stride);
  strides_.push_back(1);
}

bool covers(const Geometry& geometry, std::int64_t elements) noexcept {
  if (geometry.offset != 0 || geometry.sizes.size() != geometry.strides.size()) return false;
  std::int64_t count = 1;
  for (const std::int64_t size : geometry.sizes) {
    if (size <= 0 || size > elements) return false;
    count *= size;
    if (count > elements) return false;
  }
  return count == elements && contiguous_run(geometry, elements) == elements;
}

std::optional<PlaneLayout> plane_layout(const Geometry& geometry, int plane_rank) noexcept {
  const int rank = static_cast<int>(geometry.sizes.size());
  const int depth = plane_rank > 0 ? plane_rank : rank - 2;
  const int outside = rank - depth;
  if (depth < 1 || depth > 3 || outside < 0 || outside > 2) return std::nullopt;

  PlaneLayout layout;
  const auto set = [&geometry](int dimension, std::int64_t& extent, std::int64_t& stride) {
    extent = geometry.sizes[dimension];
    // PyTorch's stride of a dimension of one element is arbitrary; 0 gives layouts one form.
    stride = extent == 1 ? 0 : geometry.strides[dimension];
  };
  layout.stride = {0, 0, 0};
  for (int i = 0; i < depth; ++i) {
    const int axis = 3 - depth + i;
    set(outside + i, layout.extent[axis], layout.stride[axis]);
  }
  if (outside >= 1) set(outside - 1, layout.inner, layout.inner_stride);
  if (outside == 2) set(0, layout.outer, layout.outer_stride);
  return layout;
}

std::optional<PlaneLayout> features_apart(const Geometry& geometry, std::int64_t elements,
                                          std::int64_t group, bool on_device) noexcept {
  constexpr std::int64_t vector = 8;
  const auto rank = static_cast<int>(geometry.sizes.size());
  if (rank < 2) return std::nullopt;
  const int feature = geometry.strides[rank - 1] == 1 ? rank - 1 : rank - 2;
  const int row = 2 * rank - 3 - feature;
  const std::int64_t features = geometry.strides[row];  // of a row in memory
  const bool side_by_side = geometry.strides[feature] == 1 && geometry.sizes[row] > 1 &&
                            features >= geometry.sizes[feature] && features > 1;
  if (!side_by_side || elements % features != 0) return std::nullopt;
  if (on_device && features % vector != 0) return std::nullopt;
  const std::int64_t rows = elements / features;
  const std::int64_t together = rows_of_group(rows, group, on_device);
  if (together == 0) return std::nullopt;
  PlaneLayout layout;
  layout.outer = rows / together;
  layout.outer_stride = layout.outer == 1 ? 0 : together * features;
  layout.extent = {features, 1, together};
  layout.stride = {1, 0, features};
  return layout;
}

std::int64_t row_length(const Geometry& geometry) noexcept {
  const int first = next_dimension(geometry, 1);
  if (first < 0 || geometry.strides[first] != 1) return 0;
  return contiguous_run(geometry, std::max(geometry.sizes[first], shortest_row));
}

std::int64_t flat_row(std::int64_t elements, std::int64_t wanted) noexcept {
  constexpr std::int64_t furthest = 16;  // times shorter or longer than wanted
  constexpr std::int64_t word = 8, worth_a_word = 4;
  if (elements <= wanted) return elements;
  for (std::int64_t row = wanted / word * word; row >= std::max(word, wanted / worth_a_word);
       row -= word) {
    if (elements % row == 0) return row;
  }
  for (std::int64_t row = wanted; row >= std::max<std::int64_t>(wanted / furthest, 2); --row) {
    if (elements % row == 0) return row;
  }
  for (std::int64_t row = wanted + 1; row <= std::min(wanted * furthest, elements); ++row) {
    if (elements % row == 0) return row;
  }
  return elements;
}

double division_bits_per_element(const codecs::CodecSpec& spec,
                                 const PlaneLayout& layout) noexcept {
  double blocks = 1;
  for (const std::int64_t extent : layout.extent) {
    const std::int64_t block = std::min<std::int64_t>(spec.block, extent);
    blocks *= static_cast<double>(spec.edge_ceil ? (extent + block - 1) / block : extent / block);
  }
  const std::int64_t size = layout.plane_size();
  const std::int64_t group = spec.residual_group > 0 ? spec.residual_group : size;
  const auto ranges = static_cast<double>((size + group - 1) / group);
  return spec.bits + (spec.with_sign ? 1 : 0) + (spec.with_bounds ? 2 : 0) +
         (16 * blocks + 32 * ranges) / static_cast<double>(size);
}

}  // namespace cinch::policy
