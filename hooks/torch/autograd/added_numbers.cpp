// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/added_numbers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>

#include <torch/csrc/autograd/variable.h>

namespace cinch::hooks::added_numbers {
namespace {

using torch::autograd::Node;

/// A node may lie where an older one lay. Its number in the thread's sequence is its own.
struct Noted {
  const Node* node = nullptr;
  std::uint64_t sequence = 0;
  double number = 0;
};

/// The thread's latest; `next` is the oldest one, to be replaced.
struct Latest {
  std::array<Noted, 64> all;
  std::size_t next = 0;
};
thread_local Latest latest;

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

const Node* node_of(const at::Tensor& result) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(result);
  return meta == nullptr ? nullptr : meta->grad_fn_.get();
}

template <class T>
void note_of(const at::Tensor& result, const T& operand) noexcept try {
  const Node* node = node_of(result);
  if (node == nullptr) return;
  const auto number = value_of(operand);
  if (!number) return;
  latest.all[latest.next] = {node, node->sequence_nr(), *number};
  latest.next = (latest.next + 1) % latest.all.size();
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

std::optional<double> find(const Node& node) noexcept {
  const auto noted = std::ranges::find_if(latest.all, [&](const Noted& each) {
    return each.node == &node && each.sequence == node.sequence_nr();
  });
  return noted == latest.all.end() ? std::nullopt : std::optional(noted->number);
}

}  // namespace cinch::hooks::added_numbers
