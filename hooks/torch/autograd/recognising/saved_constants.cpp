// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/recognising/saved_constants.h"

#include <algorithm>
#include <typeinfo>

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include "hooks/torch/autograd/nodes/members.h"
#include "hooks/torch/program/below_program.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks::saved_constants {
namespace {

using torch::autograd::Edge;
using torch::autograd::SavedVariable;

template <typename T>
bool assign(const at::Tensor& tensor, std::vector<float>& to) {
  const T* const values = tensor.const_data_ptr<T>();
  to.assign(values, values + tensor.numel());
  return true;
}

/// The parameter that `edge` leads to; null if it leads to none.
const at::Tensor* parameter(const Edge& edge) {
  if (!edge.is_valid()) return nullptr;
  const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get());
  return leaf == nullptr || !leaf->variable.defined() ? nullptr : &leaf->variable;
}

}  // namespace

bool has_data(SavedVariable& saved) {
  return saved.has_hooks() || members::data_of(saved).defined();
}

bool is_plain(const at::Tensor& tensor, std::int64_t n) {
  return tensor.numel() == n && tensor.is_contiguous();
}

bool copy(const at::Tensor& tensor, std::int64_t n, std::vector<float>& to) {
  if (!tensor.is_cpu() || !is_plain(tensor, n)) return false;
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return assign<float>(tensor, to);
    case at::kBFloat16:
      return assign<at::BFloat16>(tensor, to);
    case at::kHalf:
      return assign<at::Half>(tensor, to);
    default:
      return false;
  }
}

bool copy_saved(SavedVariable& saved, std::int64_t n, std::vector<float>& to) {
  if (!saved.has_hooks()) {
    const at::Tensor& data = members::data_of(saved);
    return data.defined() && members::is_as_saved(saved) && copy(data, n, to);
  }
  const HeldTensor* held = held_by_stash(saved);
  if (held == nullptr || !held->is_as_saved()) return false;
  const c10::Storage exact = stash().exact().of(*held->entry());
  if (!exact || exact.nbytes() != static_cast<std::size_t>(n) * sizeof(float)) return false;
  const auto* const values = static_cast<const float*>(exact.data());
  to.assign(values, values + n);
  return true;
}

bool copy_factors(SavedVariable& saved, std::int64_t n, float instead, std::vector<float>& to) {
  if (!has_data(saved)) {
    to.assign(static_cast<std::size_t>(n), instead);
    return true;
  }
  return copy_saved(saved, n, to);
}

namespace {

/// The bias that `edge` leads to; null if it leads to none that is known.
/// @param repeated Set if the norm takes it several times, as instance norm does
const at::Tensor* bias_of(const Edge& edge, bool& repeated) {
  repeated = false;
  if (const at::Tensor* bias = parameter(edge)) return bias;
  const torch::autograd::Node& node = *edge.function;
  if (typeid(node) != typeid(torch::autograd::generated::RepeatBackward0)) return nullptr;
  repeated = true;
  return parameter(node.next_edge(0));
}

bool repeats_to(const at::Tensor& bias, std::int64_t n) {
  return bias.dim() == 1 && bias.numel() != 0 && n % bias.numel() == 0;
}

bool fits(const at::Tensor& tensor, std::int64_t n, c10::Device device) {
  const bool has_type = tensor.scalar_type() == at::kFloat ||
                        tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
  return has_type && tensor.device() == device && is_plain(tensor, n);
}

}  // namespace

bool copy_bias(const Edge& edge, bool has_weight, std::int64_t n, std::vector<float>& to) {
  if (!edge.is_valid()) {
    to.assign(static_cast<std::size_t>(n), 0);
    return !has_weight;
  }
  bool repeated = false;
  const at::Tensor* bias = bias_of(edge, repeated);
  if (bias == nullptr) return false;
  if (!repeated) return copy(*bias, n, to);
  if (!repeats_to(*bias, n) || !copy(*bias, bias->numel(), to)) return false;
  const auto once = static_cast<std::ptrdiff_t>(to.size());
  to.resize(static_cast<std::size_t>(n));
  for (auto next = to.begin() + once; next != to.end(); next += once) {
    std::copy_n(to.begin(), once, next);
  }
  return true;
}

at::Tensor find(SavedVariable& saved) {
  if (!has_data(saved)) return {};
  at::Tensor found = exact_of(saved);
  const bool is_part = saved.has_hooks() && found.defined() &&
                       (found.storage_offset() != 0 || found.storage().nbytes() != found.nbytes());
  return is_part ? at::Tensor() : found;
}

bool find_factors(SavedVariable& saved, std::int64_t n, c10::Device device, at::Tensor& to) {
  if (!has_data(saved)) return true;
  const at::Tensor factors = find(saved);
  if (!factors.defined() || !fits(factors, n, device)) return false;
  to = factors;
  return true;
}

bool find_bias(const Edge& edge, bool has_weight, std::int64_t n, c10::Device device,
               at::Tensor& to) {
  if (!edge.is_valid()) return !has_weight;
  bool repeated = false;
  const at::Tensor* bias = bias_of(edge, repeated);
  if (bias == nullptr) return false;
  const at::Tensor data = bias->tensor_data();
  if (!repeated) {
    to = data;
    return fits(data, n, device);
  }
  if (!repeats_to(data, n) || !fits(data, data.numel(), device)) return false;
  const BelowProgram guard;
  to = data.expand({n / data.numel(), data.numel()});
  return true;
}

}  // namespace cinch::hooks::saved_constants
