// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <torch/csrc/autograd/function.h>

#include "hooks/torch/stash/saved/layout.h"

namespace cinch::hooks {

class HeldTensor;

/// The held tensors that some node saved as its input, by the node that made the tensor and the
/// number of its output. What only another form of was saved is known, too: what was converted to a
/// wider type, which has all of its values, and that of which a view was saved. Thread-safe.
namespace saved_inputs {

/// A node and the number of its output; 0: none, also for large output numbers.
using Key = std::uintptr_t;
Key key_of(const torch::autograd::Node& producer, std::uint32_t output) noexcept;

/// Registers the table's lock with fork.h. @pre called once, before the stash starts: the stash's
/// lock is taken while this lock is held
void register_lock();

/// Adds or replaces the tensor for `key`. @pre `held` has an entry @throws std::bad_alloc
void add(Key key, const HeldTensor& held);

/// Adds the tensor also for the node whose first output `producer` has made wider, or sees a part
/// of, if `producer` is such a node. @param output The number of the tensor among the producer's
/// outputs @pre it was added with a key @throws std::bad_alloc
void add_other_form(const torch::autograd::Node& producer, std::uint32_t output,
                    const HeldTensor& held);

/// Removes `held`, which was added with this key, in all its forms, unless other tensors have taken
/// its places.
void remove(Key key, const HeldTensor& held) noexcept;

/// Calls `look` with the tensor that holds the value, if there is one; it is not removed meanwhile.
void find(const torch::autograd::Node& producer, std::uint32_t output,
          const std::function<void(const HeldTensor&)>& look);
/// How a tensor holds the first output of another node.
enum class Form : std::uint8_t { widened, view };
/// The same with a tensor that holds the first output in another form. Autograd does not say how
/// that output lay in memory: a view of it is only given if it shows that it lay as `whole` says.
void find_other_form(const torch::autograd::Node& producer, const Layout& whole,
                     const std::function<void(const HeldTensor&, Form)>& look);

}  // namespace saved_inputs
}  // namespace cinch::hooks
