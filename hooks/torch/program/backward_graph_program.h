// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// backward_graph.py, embedded when Cinch is built.
const char* backward_graph_program() noexcept;

}  // namespace cinch::hooks
