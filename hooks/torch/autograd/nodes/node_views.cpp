// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/node_views.h"

#include <c10/core/SymIntArrayRef.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include "hooks/torch/autograd/nodes/node_kinds.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using torch::autograd::Node;

/// The slice from `start` that is along `dim` as long as `sizes` say.
std::optional<View> slice_to(const c10::DimVector& sizes, const Layout& input, std::int64_t dim,
                             std::int64_t start, std::int64_t step) {
  const auto rank = static_cast<std::int64_t>(sizes.size());
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) return std::nullopt;
  return slice(input, dim, start, step, sizes[static_cast<std::size_t>(dim)]);
}

std::optional<View> slice_by(const generated::SliceBackward0& node, const Layout& input,
                             const c10::DimVector& sizes) {
  const auto start = node.start ? node.start->maybe_as_int() : 0;
  const auto step = node.step.maybe_as_int();
  return start && step ? slice_to(sizes, input, node.dim, *start, *step) : std::nullopt;
}

std::optional<View> split_by(const generated::SplitBackward0& node, std::uint32_t output,
                             const Layout& input, const c10::DimVector& sizes) {
  const auto size = node.split_size.maybe_as_int();
  return size ? slice_to(sizes, input, node.dim, *size * output, 1) : std::nullopt;
}

}  // namespace

std::optional<c10::DimVector> output_sizes(const Node& node, std::uint32_t output) {
  if (output >= node.num_inputs()) return std::nullopt;
  const auto& metadata = node.input_metadata(output);
  if (metadata.was_default_constructed() || metadata.is_cpp_nested_tensor()) return std::nullopt;
  const auto sizes = c10::asIntArrayRefSlowOpt(metadata.shape_as_dim_vector());
  if (!sizes) return std::nullopt;
  return c10::DimVector(*sizes);
}

std::optional<View> view_by(const Node& node, std::uint32_t output, const Layout& input) {
  const auto sizes = output_sizes(node, output);
  if (!sizes) return std::nullopt;
  switch (kind_of(node)) {
    case NodeKind::view:
      return view(input, *sizes);
    case NodeKind::permute:
      return permute(input, static_cast<const generated::PermuteBackward0&>(node).dims);
    case NodeKind::transpose: {
      const auto& transposed = static_cast<const generated::TransposeBackward0&>(node);
      return transpose(input, transposed.dim0, transposed.dim1);
    }
    case NodeKind::t:
      return transpose(input, 0, -1);
    case NodeKind::expand:
      return expand(input, *sizes);
    case NodeKind::slice:
      return slice_by(static_cast<const generated::SliceBackward0&>(node), input, *sizes);
    case NodeKind::select: {
      const auto& selected = static_cast<const generated::SelectBackward0&>(node);
      const auto index = selected.index.maybe_as_int();
      return index ? select(input, selected.dim, *index) : std::nullopt;
    }
    case NodeKind::split:
      return split_by(static_cast<const generated::SplitBackward0&>(node), output, input, *sizes);
    case NodeKind::unbind:
      return select(input, static_cast<const generated::UnbindBackward0&>(node).dim, output);
    default:
      return std::nullopt;
  }
}

std::optional<View> view_through(const Node& node, std::uint32_t output, const Node& first,
                                 const Layout& whole) {
  const torch::autograd::Edge& input = node.next_edge(0);
  const bool is_first = input.function.get() == &first;
  const auto before = is_first ? std::optional(View{whole})
                               : view_through(*input.function, input.input_nr, first, whole);
  if (!before) return std::nullopt;
  auto seen = view_by(node, output, before->layout);
  if (seen) seen->offset += before->offset;
  return seen;
}

}  // namespace cinch::hooks
