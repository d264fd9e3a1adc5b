// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace cinch::hooks {

/// The operator and operand that a place in torch's code saves.
struct SiteNames {
  std::string op;       ///< "aten::convolution"
  std::string operand;  ///< the schema's argument name, "result", "result1"; "" if it can't be told
  /// Of a max-pool's input, how many trailing dimensions it pools; 0 for everything else. Such an
  /// input's geometry explains the indices that the same operator saves next.
  int pooled_dimensions = 0;
};

/// A place in torch's code that saves a tensor: the return address of a SavedVariable constructor
/// call. In torch's generated code it belongs to exactly one operator and one operand (design.md
/// §3, "Who saves what, at no cost"). Thread-safe.
class Site {
 public:
  /// @param shared The place serves many operators (a custom autograd.Function, a helper for lists
  ///   of tensors), so a name learned once would be wrong later.
  explicit Site(bool shared) : shared_(shared) {}

  bool shared() const noexcept { return shared_.load(std::memory_order_relaxed); }

  /// The names, valid forever; null while unknown, and for shared places.
  const SiteNames* names() const noexcept {
    return shared() ? nullptr : names_.load(std::memory_order_acquire);
  }

  /// Says which operator saved here; a second, different one makes the place shared.
  void name(const char* op, std::string operand);

  /// Counts a save that could not be named; after a few the place is given up as shared.
  void could_not_name() noexcept;

 private:
  std::atomic<bool> shared_;
  std::atomic<int> attempts_{0};
  std::atomic<const SiteNames*> names_{nullptr};  // replaced at most twice, never freed
};

/// Holds the tables' locks across forks. @pre called once
void register_site_locks();

/// The site of `address`, created when new. Sites are never destroyed. A few nanoseconds for an
/// address that this thread asked for lately.
Site& site_at(void* address);

/// Called at each save of an interesting tensor: names `site` if operator names are recorded, and
/// has them recorded if the site is new.
void learn_site(Site& site, const void* tensor_impl, bool is_output);

/// Grows with every site seen for the first time or named: while it does, recording goes on.
std::uint64_t site_changes() noexcept;

}  // namespace cinch::hooks
