// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace cinch::hooks {

struct Recipe;
class Site;

/// Which kinds of recipes are known to give a tensor's own bits. A kind is what Recipe::key() tells
/// apart, and where the tensor is saved. Its first recipes are compared before any is used, one of
/// every 64 later on; after one difference none is used again. Thread-safe.
class Proofs {
 public:
  enum class Comparison : std::uint8_t { equal, different, not_made };

  /// Sets the recipe's nanoseconds where it admits it.
  /// @param compare Computes the value and compares it; called without the lock, where it is
  /// needed.
  bool admits(Recipe& recipe, const Site& site, const std::function<Comparison()>& compare);

  /// Kinds that are not used.
  std::size_t refused() const;

  /// For forks.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct Kind {
    std::uint64_t seen = 0;
    std::uint64_t nanoseconds = 0;
    std::uint32_t equal = 0;
    bool refused = false;
  };
  struct Hash {
    std::size_t operator()(const std::vector<std::int64_t>& key) const noexcept;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::vector<std::int64_t>, Kind, Hash> kinds_;
};

}  // namespace cinch::hooks
