// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace cinch::hooks {

/// The node that has made `result`; null where autograd knows none.
inline const torch::autograd::Node* node_of(const at::Tensor& result) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(result);
  return meta == nullptr ? nullptr : meta->grad_fn_.get();
}

/// Something of each of the `most` nodes that were noted last. Not thread-safe: one for each
/// thread.
template <typename T, std::size_t most>
class LatestNodes {
 public:
  using Node = torch::autograd::Node;

  void note(const Node& node, T of_it) {
    all_[next_] = {&node, node.sequence_nr(), std::move(of_it)};
    next_ = (next_ + 1) % most;
  }

  /// Null: it was not noted, or long ago.
  const T* find(const Node& node) const noexcept {
    const auto noted = std::ranges::find_if(all_, [&](const Noted& each) {
      return each.node == &node && each.sequence == node.sequence_nr();
    });
    return noted == all_.end() ? nullptr : &noted->of_it;
  }

 private:
  /// A node may lie where an older one lay. Its number in the thread's sequence is its own.
  struct Noted {
    const Node* node = nullptr;
    std::uint64_t sequence = 0;
    T of_it{};
  };

  std::array<Noted, most> all_;
  std::size_t next_ = 0;  // the oldest one, to be replaced
};

}  // namespace cinch::hooks
