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
  /// Whether backward compares the input with the operator's bounds, its second and third argument.
  bool bounded = false;
};

/// A place in torch's code that saves a tensor: the return address of a SavedVariable constructor
/// call. In torch's generated code it belongs to exactly one operator and one operand
/// (docs/design.md, "Operators are learned"). Thread-safe.
class Site {
 public:
  enum class Kind : std::uint8_t {
    one,     ///< serves one operator
    many,    ///< serves many (a helper for lists of tensors): a name learned once would be wrong
             ///< later
    python,  ///< Python's autograd.Function; each class that is known has a site of its own
  };
  explicit Site(Kind kind) : shared_(kind != Kind::one), python_(kind == Kind::python) {}
  /// The site of a Python class.
  explicit Site(const char* function);

  bool python() const noexcept { return python_; }
  bool shared() const noexcept { return shared_.load(std::memory_order_relaxed); }

  /// The names, valid forever; null while unknown, and for shared places.
  const SiteNames* names() const noexcept {
    return shared() ? nullptr : names_.load(std::memory_order_acquire);
  }

  /// The program reads what was saved here itself, and is shown values from then on: what is saved
  /// later is held as that of an unknown operator.
  void note_shown() noexcept { shown_.store(true, std::memory_order_relaxed); }
  bool shown() const noexcept { return shown_.load(std::memory_order_relaxed); }

  /// Says which operator saved here; a second, different one makes the place shared.
  void name(const char* op, std::string operand);

  /// Counts a save that could not be named; after a few the place is given up as shared.
  void could_not_name() noexcept;

 private:
  std::atomic<bool> shared_;
  const bool python_;
  std::atomic<bool> shown_{false};
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

/// For a site of Python's: that of the autograd.Function that saves on this thread; `site` itself
/// while it is not known, which the first one is not. Has operator names recorded from then on.
Site& function_site(Site& site);

/// Grows with every site seen for the first time or named: while it does, recording goes on.
std::uint64_t site_changes() noexcept;

}  // namespace cinch::hooks
