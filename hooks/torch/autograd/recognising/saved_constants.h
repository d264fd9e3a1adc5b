// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "hooks/torch/autograd/held/held_tensor.h"

/// Small tensors that nodes saved or that their edges lead to, which recipes copy: the program may
/// change them before backward. Each function returns whether it could copy.
namespace cinch::hooks::saved_constants {

/// Most values that a recipe copies; more would not be small beside the tensor.
inline constexpr std::int64_t most = 65536;

/// Whether the variable has a tensor: PyTorch's own, or one that hooks packed.
bool has_data(torch::autograd::SavedVariable& saved);

/// Whether the tensor is `n` contiguous elements.
bool is_plain(const at::Tensor& tensor, std::int64_t n);

/// Copies `n` plain elements of a type that recipes have.
bool copy(const at::Tensor& tensor, std::int64_t n, std::vector<float>& to);

/// Copies a saved tensor, whether PyTorch or the stash holds it.
bool copy_saved(torch::autograd::SavedVariable& saved, std::int64_t n, std::vector<float>& to);

/// Copies a weight or bias; `instead` for each value where there is none.
bool copy_factors(torch::autograd::SavedVariable& saved, std::int64_t n, float instead,
                  std::vector<float>& to);

/// Copies the bias that `edge` leads to, whole or repeated, as instance norm does. No edge: zeros,
/// if the norm has no weight either.
bool copy_bias(const torch::autograd::Edge& edge, bool has_weight, std::int64_t n,
               std::vector<float>& to);

/// What a node saved, not copied: the program's memory, or that of the exact values which the stash
/// holds. Undefined if there is none, or it changed since, or only a part of a storage was saved.
at::Tensor find(torch::autograd::SavedVariable& saved);

// Weights and biases for a recipe on a CUDA device, not copied: Holding::own_constants() does so
// once the recipe is proved. They stay undefined where there is no weight or bias.

/// A weight or bias of `n` elements.
bool find_factors(torch::autograd::SavedVariable& saved, std::int64_t n, c10::Device device,
                  at::Tensor& to);

bool find_bias(const torch::autograd::Edge& edge, bool has_weight, std::int64_t n,
               c10::Device device, at::Tensor& to);

}  // namespace cinch::hooks::saved_constants
