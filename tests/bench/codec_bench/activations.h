// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/codec_bench/source.h"

namespace cinch::bench {

/// A tensor that dump_activations.py saved.
struct Activation {
  std::string kind;  ///< which contenders suit it; dump_activations.py's word
  Source source;
};

/// What `folder`/index.json lists, each tensor repeated along its outer dimension until it takes at
/// least `bytes`: smaller ones would be timed in the cache.
/// @throws std::exception when the index is missing or wrong
std::vector<Activation> load_activations(const std::filesystem::path& folder, std::int64_t bytes);

}  // namespace cinch::bench
