// SPDX-License-Identifier: Apache-2.0
#pragma once

/// After a lambda's parameters: it becomes part of its caller, so that vectors that it captures
/// stay in registers.
#define CINCH_INLINE_LAMBDA __attribute__((always_inline))
