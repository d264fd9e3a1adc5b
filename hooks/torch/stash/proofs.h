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

/// Remembers which kinds of recipes give exactly PyTorch's bits. A kind is a Recipe::key() together
/// with the site of the save. The first recipes of a kind are compared before any is used, later
/// one of every 64. After one difference the kind is never used again. Thread-safe.
class Proofs {
 public:
  enum class Comparison : std::uint8_t { equal, different, not_made };

  /// Whether `recipe` may be used. Sets its nanoseconds if so.
  /// @param compare Computes and compares the value; called, if needed, without the lock
  bool admits(Recipe& recipe, const Site& site, const std::function<Comparison()>& compare);

  /// How many kinds were refused after a difference.
  std::size_t refused() const;

  /// For holding the lock over a fork.
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
