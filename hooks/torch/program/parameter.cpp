// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/parameter.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <typeinfo>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

namespace cinch::hooks {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

// Classes of generated autograd nodes whose result is the same memory as, or a dtype cast of, their
// first input, perhaps lazily conjugated. Names as in torch/csrc/autograd/generated/Functions.h,
// without the overload's number.
constexpr std::string_view same_data_nodes[] = {
    "TBackward",
    "TransposeBackward",
    "PermuteBackward",
    "ViewBackward",
    "UnsafeViewBackward",
    "ReshapeAliasBackward",
    "ExpandBackward",
    "SqueezeBackward",
    "UnsqueezeBackward",
    "SliceBackward",
    "SelectBackward",
    "AsStridedBackward",
    "AliasBackward",
    "DetachBackward",
    "NumpyTBackward",
    "SplitBackward",
    "SplitWithSizesBackward",
    "UnbindBackward",
    "DiagonalBackward",
    "UnfoldBackward",
    "ViewAsRealBackward",
    "ViewAsComplexBackward",
    "ConjBackward",
    "ToCopyBackward",
    "MkldnnReorderBackward",
};

enum class Kind : std::uint8_t { other, same_data, accumulate };

// Goes by the class name as Itanium mangles it: "N5torch8autograd9generated9TBackward0E".
Kind classify(const std::type_info& type) {
  if (type == typeid(AccumulateGrad)) return Kind::accumulate;
  const std::string_view mangled = type.name();
  for (const std::string_view name : same_data_nodes) {
    const auto at = mangled.find(name);
    if (at == std::string_view::npos || at == 0) continue;
    // The whole class name has a digit before (its mangled length) and behind (the overload).
    const auto is_digit = [&](std::size_t i) { return mangled[i] >= '0' && mangled[i] <= '9'; };
    if (is_digit(at - 1) && at + name.size() < mangled.size() && is_digit(at + name.size())) {
      return Kind::same_data;
    }
  }
  return Kind::other;
}

Kind kind_of(const Node& node) {
  struct Line {
    const std::type_info* type;
    Kind kind;
  };
  static thread_local std::array<Line, 64> cache{};
  const std::type_info& type = typeid(node);
  Line& line = cache[(reinterpret_cast<std::uintptr_t>(&type) >> 4) % cache.size()];
  if (line.type != &type) line = {&type, classify(type)};
  return line.kind;
}

// Follows views and casts back to their parameter; null if there is any other node on the way.
const c10::TensorImpl* parameter_behind(const Node* node) {
  constexpr int longest_chain = 16;
  for (int i = 0; node != nullptr && i < longest_chain; ++i) {
    switch (kind_of(*node)) {
      case Kind::accumulate:
        return static_cast<const AccumulateGrad*>(node)->variable.unsafeGetTensorImpl();
      case Kind::other:
        return nullptr;
      case Kind::same_data:
        node = node->num_outputs() == 0 ? nullptr : node->next_edge(0).function.get();
    }
  }
  return nullptr;
}

}  // namespace

bool derives_from_parameter(const at::Tensor& tensor) noexcept {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr) return false;
  const Node* node = meta->grad_fn_.get();
  if (node == nullptr) {
    // A leaf, or a view whose node PyTorch makes only on demand: then the base decides.
    if (meta->is_view_) {
      const auto* view = static_cast<const torch::autograd::DifferentiableViewMeta*>(meta);
      if (view->has_bw_view()) return derives_from_parameter(view->get_backward_view().base_);
    }
    return meta->requires_grad_;
  }
  return parameter_behind(node) != nullptr;
}

const c10::TensorImpl* parameter_behind(const torch::autograd::Edge& edge) noexcept {
  return parameter_behind(edge.function.get());
}

}  // namespace cinch::hooks
