// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/TensorBase.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/DimVector.h>

#include "codecs/arithmetic/norms.h"

namespace cinch::hooks {

/// How a tensor's elements lie in memory. Strides are in elements.
struct Layout {
  c10::DimVector sizes;
  c10::DimVector strides;

  std::int64_t elements() const;
  bool operator==(const Layout& other) const = default;
};

/// How the tensor lies, from its first element on.
Layout layout_of(const at::TensorBase& tensor);

Layout contiguous(c10::IntArrayRef sizes);

bool is_contiguous(const Layout& layout);

/// A tensor of these sizes without gaps. Its dimensions are nested as `like`'s are, if there are as
/// many; else it is contiguous.
Layout dense_like(c10::IntArrayRef sizes, const Layout& like);

/// Where dimension 1 lies; nullopt if the layout is neither contiguous nor channels last.
std::optional<codecs::ChannelOrder> channel_order(const Layout& layout, std::int64_t tables);

/// A view: its layout, and its first element counted from the first of what is viewed.
struct View {
  Layout layout;
  std::int64_t offset = 0;
};

/// Whether the view has elements at several places along each dimension of `whole`, which is dense,
/// so that its strides tell how all of it lies.
bool shows_all_dimensions(const View& view, const Layout& whole);

// Views as PyTorch's operators of these names make them. Dimensions may count from the end.
// nullopt: there is no such view.
std::optional<View> view(const Layout& of, c10::IntArrayRef sizes);
std::optional<View> permute(const Layout& of, c10::IntArrayRef dims);
std::optional<View> transpose(const Layout& of, std::int64_t dim0, std::int64_t dim1);
std::optional<View> expand(const Layout& of, c10::IntArrayRef sizes);
/// @param size Of the result's dimension `dim`
std::optional<View> slice(const Layout& of, std::int64_t dim, std::int64_t start, std::int64_t step,
                          std::int64_t size);
std::optional<View> select(const Layout& of, std::int64_t dim, std::int64_t index);

}  // namespace cinch::hooks
