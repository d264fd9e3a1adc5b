// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <torch/csrc/autograd/function.h>

namespace cinch::hooks {

class HeldTensor;

/// The held tensors that some node saved as its input, by the node that made the tensor and the
/// number of its output. What was converted to a wider type before it was saved is also known by
/// the node that made it: the wider tensor has all of its values. Thread-safe.
namespace saved_inputs {

/// A node and the number of its output; 0: none, also for large output numbers.
using Key = std::uintptr_t;
Key key_of(const torch::autograd::Node& producer, std::uint32_t output) noexcept;

/// Registers the table's lock with fork.h. @pre called once, before the stash starts: the stash's
/// lock is taken while this lock is held
void register_lock();

/// Adds or replaces the tensor for `key`. @pre `held` has an entry @throws std::bad_alloc
void add(Key key, const HeldTensor& held);

/// Removes `held`, which was added with this key, unless another tensor has taken its place.
void remove(Key key, const HeldTensor& held) noexcept;

/// The same for the node whose first output `conversion` has made wider, if it is such a node.
/// @return whether the tensor was added
bool add_widened(const torch::autograd::Node& conversion, const HeldTensor& held);
void remove_widened(const HeldTensor& held) noexcept;

/// Calls `look` with the tensor that holds the value, if there is one; it is not removed meanwhile.
void find(const torch::autograd::Node& producer, std::uint32_t output,
          const std::function<void(const HeldTensor&)>& look);
/// The same with the tensor that holds the first output in a wider type.
void find_widened(const torch::autograd::Node& producer,
                  const std::function<void(const HeldTensor&)>& look);

}  // namespace saved_inputs
}  // namespace cinch::hooks
