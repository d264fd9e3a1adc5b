// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/saved/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/TensorUtils.h>
#include <c10/util/accumulate.h>

namespace cinch::hooks {
namespace {

/// The dimension, counted from the first; nullopt if there is none.
std::optional<std::size_t> dimension(const Layout& of, std::int64_t dim) {
  const auto rank = static_cast<std::int64_t>(of.sizes.size());
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) return std::nullopt;
  return static_cast<std::size_t>(dim);
}

}  // namespace

std::int64_t Layout::elements() const {
  return c10::multiply_integers(sizes);
}

Layout layout_of(const at::TensorBase& tensor) {
  return {c10::DimVector(tensor.sizes()), c10::DimVector(tensor.strides())};
}

Layout contiguous(c10::IntArrayRef sizes) {
  Layout made{c10::DimVector(sizes), c10::DimVector(sizes.size())};
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    made.strides[i] = stride;
    stride *= std::max<std::int64_t>(sizes[i], 1);
  }
  return made;
}

bool is_contiguous(const Layout& layout) {
  std::int64_t expected = 1;
  for (std::size_t i = layout.sizes.size(); i-- > 0;) {
    if (layout.sizes[i] != 1 && layout.strides[i] != expected) return false;
    expected *= layout.sizes[i];
  }
  return true;
}

Layout dense_like(c10::IntArrayRef sizes, const Layout& like) {
  Layout made = contiguous(sizes);
  if (sizes.size() != like.sizes.size() || is_contiguous(like)) return made;
  c10::DimVector inner_first(sizes.size());
  std::iota(inner_first.begin(), inner_first.end(), 0);
  std::ranges::stable_sort(inner_first, [&](std::int64_t a, std::int64_t b) {
    return like.strides[static_cast<std::size_t>(a)] < like.strides[static_cast<std::size_t>(b)];
  });
  std::int64_t stride = 1;
  for (const std::int64_t dim : inner_first) {
    made.strides[static_cast<std::size_t>(dim)] = stride;
    stride *= std::max<std::int64_t>(sizes[static_cast<std::size_t>(dim)], 1);
  }
  return made;
}

std::optional<codecs::ChannelOrder> channel_order(const Layout& layout, std::int64_t tables) {
  if (layout.sizes.size() < 2) return std::nullopt;
  const std::int64_t samples = layout.sizes[0];
  const std::int64_t channels = layout.sizes[1];
  if (samples == 0 || channels == 0) return std::nullopt;
  const std::int64_t inner = layout.elements() / samples / channels;
  if (is_contiguous(layout)) return codecs::ChannelOrder{samples, channels, inner, tables};
  std::int64_t expected = channels;
  bool last = layout.strides[1] == 1;
  for (std::size_t i = layout.sizes.size(); i-- > 2;) {
    last = last && (layout.sizes[i] == 1 || layout.strides[i] == expected);
    expected *= layout.sizes[i];
  }
  last = last && (samples == 1 || layout.strides[0] == expected);
  if (!last) return std::nullopt;
  return codecs::ChannelOrder{samples * inner, channels, 1, tables};
}

bool shows_all_dimensions(const View& view, const Layout& whole) {
  const auto& [sizes, strides] = view.layout;
  for (std::size_t d = 0; d < whole.sizes.size(); ++d) {
    const std::int64_t step = whole.strides[d];
    bool is_shown = whole.sizes[d] == 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      // From place to place along the view's dimension it is `step` or more, or adds up to that.
      is_shown |= strides[i] * (sizes[i] - 1) >= step && strides[i] < step * whole.sizes[d];
    }
    if (!is_shown) return false;
  }
  return true;
}

std::optional<View> view(const Layout& of, c10::IntArrayRef sizes) {
  if (c10::multiply_integers(sizes) != of.elements()) return std::nullopt;
  const auto strides = at::detail::computeStride(of.sizes, of.strides, sizes);
  if (!strides) return std::nullopt;
  return View{{c10::DimVector(sizes), c10::DimVector(strides->begin(), strides->end())}};
}

std::optional<View> permute(const Layout& of, c10::IntArrayRef dims) {
  if (dims.size() != of.sizes.size()) return std::nullopt;
  View made;
  for (const std::int64_t dim : dims) {
    const auto from = dimension(of, dim);
    if (!from) return std::nullopt;
    made.layout.sizes.push_back(of.sizes[*from]);
    made.layout.strides.push_back(of.strides[*from]);
  }
  return made;
}

std::optional<View> transpose(const Layout& of, std::int64_t dim0, std::int64_t dim1) {
  const auto a = dimension(of, dim0);
  const auto b = dimension(of, dim1);
  if (!a || !b) return std::nullopt;
  View made{of};
  std::swap(made.layout.sizes[*a], made.layout.sizes[*b]);
  std::swap(made.layout.strides[*a], made.layout.strides[*b]);
  return made;
}

std::optional<View> expand(const Layout& of, c10::IntArrayRef sizes) {
  if (sizes.size() < of.sizes.size()) return std::nullopt;
  const std::size_t more = sizes.size() - of.sizes.size();
  View made{{c10::DimVector(sizes), c10::DimVector(sizes.size(), 0)}};
  for (std::size_t i = 0; i < of.sizes.size(); ++i) {
    const bool is_repeated = of.sizes[i] != sizes[more + i];
    if (is_repeated && of.sizes[i] != 1) return std::nullopt;
    if (!is_repeated) made.layout.strides[more + i] = of.strides[i];
  }
  return made;
}

std::optional<View> slice(const Layout& of, std::int64_t dim, std::int64_t start, std::int64_t step,
                          std::int64_t size) {
  const auto along = dimension(of, dim);
  if (!along || step <= 0 || size < 0) return std::nullopt;
  if (start < 0) start += of.sizes[*along];
  if (start < 0 || (size > 0 && start + (size - 1) * step >= of.sizes[*along])) return std::nullopt;
  View made{of, start * of.strides[*along]};
  made.layout.sizes[*along] = size;
  made.layout.strides[*along] *= step;
  return made;
}

std::optional<View> select(const Layout& of, std::int64_t dim, std::int64_t index) {
  const auto along = dimension(of, dim);
  if (!along) return std::nullopt;
  auto made = slice(of, dim, index, 1, 1);
  if (!made) return std::nullopt;
  const auto at = static_cast<std::ptrdiff_t>(*along);
  made->layout.sizes.erase(made->layout.sizes.begin() + at);
  made->layout.strides.erase(made->layout.strides.begin() + at);
  return made;
}

}  // namespace cinch::hooks
