// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <torch/csrc/autograd/function.h>

namespace cinch::hooks {

class HeldTensor;

/// Which values of the graph the stash has because some node saved them as its input: found by the
/// node that made them and the number of its output. Thread-safe.
namespace saved_inputs {

/// A node and the number of its output; 0: none.
using Key = std::uintptr_t;
Key key_of(const torch::autograd::Node& producer, std::uint32_t output) noexcept;

/// Holds the table's lock across forks. @pre called once, before the stash starts: its lock is
/// taken under this one
void register_lock();

/// `held` has an entry. The last one counts. @throws std::bad_alloc
void add(Key key, const HeldTensor& held);

/// `held`, which was added, goes.
void remove(Key key, const HeldTensor& held) noexcept;

/// Calls `look` with who holds the value, if anybody does; it stays meanwhile.
void find(const torch::autograd::Node& producer, std::uint32_t output,
          const std::function<void(const HeldTensor&)>& look);

}  // namespace saved_inputs
}  // namespace cinch::hooks
