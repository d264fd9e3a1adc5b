// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/unsaved_numbers.h"

#include <cstdint>
#include <exception>

#include "hooks/torch/autograd/nodes/latest_nodes.h"

namespace cinch::hooks::unsaved_numbers {
namespace {

thread_local LatestNodes<double, 64> latest;

std::optional<double> value_of(const c10::Scalar& number) {
  if (number.isSymbolic()) return std::nullopt;
  if (number.isFloatingPoint()) return number.toDouble();
  if (!number.isIntegral(/*includeBool=*/false)) return std::nullopt;
  constexpr std::int64_t most = std::int64_t{1} << 53;  // a double has all integers up to here
  const std::int64_t integer = number.toLong();
  if (integer < -most || integer > most) return std::nullopt;
  return static_cast<double>(integer);
}

/// The number that PyTorch has made a tensor of. One that is only traced has no data, and may
/// throw.
std::optional<double> value_of(const at::Tensor& number) {
  if (!number.device().is_cpu() || !number.has_storage()) return std::nullopt;
  const void* const data = number.const_data_ptr();
  if (data == nullptr) return std::nullopt;
  switch (number.scalar_type()) {
    case at::kDouble:
      return *static_cast<const double*>(data);
    case at::kLong:
      return value_of(c10::Scalar(*static_cast<const std::int64_t*>(data)));
    default:
      return std::nullopt;
  }
}

template <class T>
void note_of(const at::Tensor& result, const T& operand) noexcept try {
  const auto* const node = node_of(result);
  if (node == nullptr) return;
  if (const auto number = value_of(operand)) latest.note(*node, *number);
} catch (const std::exception&) {
  // Then it is not known.
}

}  // namespace

void note(const at::Tensor& result, const at::Tensor& other) noexcept {
  if (other.defined() && other.unsafeGetTensorImpl()->is_wrapped_number()) note_of(result, other);
}

void note(const at::Tensor& result, const c10::Scalar& number) noexcept {
  note_of(result, number);
}

std::optional<double> find(const torch::autograd::Node& node) noexcept {
  const double* const number = latest.find(node);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

}  // namespace cinch::hooks::unsaved_numbers
