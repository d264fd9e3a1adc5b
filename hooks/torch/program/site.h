// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/entry.h"

namespace cinch::hooks {

/// The operator that saves at a site, and the operand that it saves there.
struct SiteNames {
  std::string op;       ///< "aten::convolution"
  std::string operand;  ///< the schema's argument name, "result", "result1"; "" if it can't be told
  /// For a max-pool's input, how many trailing dimensions are pooled; else 0. The indices that the
  /// same operator saves next point into the plane of these dimensions.
  int pooled_dimensions = 0;
  /// Which of the operator's arguments say how backward reads the operand.
  enum class Parameters : std::uint8_t { none, numbers, exponent, reduction, number_type };
  Parameters parameters = Parameters::none;
  /// For an operand that backward only compares with another one that the operator saves.
  enum class Compares : std::uint8_t {
    nothing,
    first,   ///< it is saved first: "self" of amax, "other" of maximum
    second,  ///< "src" of scatter_reduce, which saves "self" first and "result" last
    last     ///< "result" of amax, "self" of maximum
  };
  Compares compares = Compares::nothing;
  /// policy::OperandFact::for_others
  bool for_others = false;
  /// For a compiled region: what its backward reads the tensor for. `operand` says it in words.
  std::vector<policy::BackwardRead> reads = {};
};

/// Whether `op` is scatter_reduce, in place or not: the only one with a second tensor that is
/// compared.
inline bool is_scatter_reduce(std::string_view op) {
  return op.starts_with("aten::scatter_reduce");
}

/// A place in torch's code that saves a tensor: the return address of a SavedVariable constructor
/// call. In torch's generated code it belongs to exactly one operator and one operand
/// (docs/design.md, "Operators are learned"). Thread-safe.
class Site {
 public:
  enum class Kind : std::uint8_t {
    one,     ///< serves one operator
    many,    ///< serves many (a helper for lists of tensors): a learned name would be wrong later
    python,  ///< serves Python's autograd.Function; each known class has a site of its own, and
             ///< each kind of tensor that a compiled region saves
  };
  explicit Site(Kind kind) : shared_(kind != Kind::one), python_(kind == Kind::python) {}
  /// The site of a Python class.
  explicit Site(SiteNames names);

  bool python() const noexcept { return python_; }
  bool shared() const noexcept { return shared_.load(std::memory_order_relaxed); }

  /// The names, valid forever; null while unknown, and for shared sites.
  const SiteNames* names() const noexcept {
    return shared() ? nullptr : names_.load(std::memory_order_acquire);
  }

  /// Notes that the program itself reads tensors saved here. Tensors saved here later are held as
  /// those of an unknown operator, so with their values (except at a site of Python's).
  void note_shown() noexcept { shown_.store(true, std::memory_order_relaxed); }
  bool shown() const noexcept { return shown_.load(std::memory_order_relaxed); }

  /// Notes that the values of tensors saved here are wanted to prove a recipe. The next two stay
  /// raw for a while.
  void want_values() noexcept { wanted_.store(2, std::memory_order_relaxed); }
  /// Whether the tensor that is being saved is one of these.
  bool take_wanted() noexcept {
    const int left = wanted_.load(std::memory_order_relaxed);
    if (left > 0) wanted_.store(left - 1, std::memory_order_relaxed);
    return left > 0;
  }

  /// Names the operator and operand saved here; a second, different one makes the site shared.
  void name(const char* op, std::string operand);

  /// Counts a save that could not be named; after a few, the site is marked shared for good.
  void could_not_name() noexcept;

 private:
  std::atomic<bool> shared_;
  const bool python_;
  std::atomic<bool> shown_{false};
  std::atomic<int> attempts_{0};
  std::atomic<int> wanted_{0};
  std::atomic<const SiteNames*> names_{nullptr};  // replaced at most twice, never freed
};

/// Registers the locks of this file's tables with fork.h. @pre called once
void register_site_locks();

/// The site of `address`, created if new. Sites are never destroyed. Takes a few nanoseconds for an
/// address that this thread asked for recently.
Site& site_at(void* address);

/// Called at each save of a wanted tensor while names are recorded or `site` has none: names `site`
/// if operator names are being recorded, else starts recording if the site has no name.
void learn_site(Site& site, const void* tensor_impl, bool is_output);

/// The site of the autograd.Function that saves on this thread; `site` itself if that class is not
/// known, as at a first save that many operators went before. Has operator names recorded from then
/// on. May run Python, in another thread. @pre site.python(), no lock of Cinch's is held
Site& function_site(Site& site);

/// Grows with every site that is seen for the first time or named; recording goes on meanwhile.
std::uint64_t site_changes() noexcept;

}  // namespace cinch::hooks
