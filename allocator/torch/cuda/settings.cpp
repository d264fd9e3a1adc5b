// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/settings.h"

#include <algorithm>
#include <array>

namespace cinch::allocator {
namespace {

constexpr std::array<std::string_view, 8> without_effect = {
    "max_split_size_mb",          // a split block's rest is never lost: pages move
    "max_non_split_rounding_mb",  // the same
    "roundup_power2_divisions",   // free memory serves any size
    "roundup_bypass_threshold_mb",
    "garbage_collection_threshold",  // idle memory goes to whoever needs it
    "large_segment_size_mb",
    "release_lock_on_cudamalloc",  // there is no cudaMalloc
    "throw_on_cudamalloc_oom",
};

}  // namespace

std::vector<std::string> settings_without_effect(std::string_view settings) {
  std::vector<std::string> found;
  std::string name;
  bool in_name = true;
  int depth = 0;  // of brackets: a list's commas do not end the setting
  const auto finish = [&] {
    const bool known = std::ranges::find(without_effect, name) != without_effect.end();
    if (known && std::ranges::find(found, name) == found.end()) found.push_back(name);
    name.clear();
    in_name = true;
  };
  for (const char c : settings) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth == 0) {
      finish();
    } else if (c == ':') {
      in_name = false;
    } else if (in_name && c != ' ') {
      name += c;
    }
  }
  finish();
  return found;
}

}  // namespace cinch::allocator
