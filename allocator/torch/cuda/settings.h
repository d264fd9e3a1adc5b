// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cinch::allocator {

/// The names of settings that steer how PyTorch's own allocator divides memory and have no effect
/// on ours; in order, each once. `settings` is "name:value,name:[a,b]", as PYTORCH_CUDA_ALLOC_CONF.
/// Settings that Cinch honours (per_process_memory_fraction, backend), has anyway
/// (expandable_segments) or leaves to PyTorch (pinned memory, private pools) are not among them.
std::vector<std::string> settings_without_effect(std::string_view settings);

}  // namespace cinch::allocator
