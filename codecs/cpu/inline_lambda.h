// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Goes after a lambda's parameters. Inlines the lambda, so that vectors that it captures stay in
/// registers.
#define CINCH_INLINE_LAMBDA __attribute__((always_inline))
