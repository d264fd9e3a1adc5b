// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"

/// A ParallelFor over threads that stay alive between calls, as those of a training program do.
namespace cinch::bench {

/// Makes later calls of `pool_for` run on `count` threads, the caller's among them.
/// @pre count >= 1, and no call is running
void set_threads(int count);

/// codecs::ParallelFor: one consecutive range a thread, as Cinch's hooks cut them.
void pool_for(std::int64_t n, std::int64_t grain, codecs::ParallelForBody body, void* argument);

}  // namespace cinch::bench
