// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "hooks/torch/autograd/held/comparison.h"
#include "hooks/torch/autograd/held/held.h"
#include "hooks/torch/autograd/held/held_tensor.h"
#include "hooks/torch/program/site.h"

namespace cinch::hooks {

/// One of the two tensors that an operator saves whose backward only compares them
/// (SiteNames::Compares); scatter_reduce, of the largest or least, compares two with the result.
/// Once all are saved, how they compare is held, and backward is given values that compare alike:
/// those of the last tensor are all 1. Where the first one is too small to be held it stays as it
/// is, and the last one is given values that compare with that. Where no comparison can be made,
/// each is held as any other. The program itself is given values as long as these are held.
class HeldCompared final : public Held {
 public:
  /// The hooks for a first tensor, which the stash wants. @param site Where it is saved
  static std::unique_ptr<HeldCompared> first(Site& site);

  /// The hooks for a second one, which the stash wants; null where no first one was saved for the
  /// same node.
  static std::unique_ptr<HeldCompared> second(Site& site);

  /// Notes that autograd keeps `tensor` itself, which may be a first one.
  static void note_declined(const at::Tensor& tensor) noexcept;

  /// Whether the last tensor may follow, to a first one that this thread saved.
  static bool awaits_last() noexcept;

  /// The hooks for the last tensor; null where no first one was saved for the same node.
  /// @param is_wanted Whether the stash wants it; it is kept else
  static std::unique_ptr<HeldCompared> last(Site& site, bool is_output, bool is_wanted);

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor restore(Reader reader) override;

 private:
  enum class Role : std::uint8_t { first, second, last };
  struct Group;

  HeldCompared(std::shared_ptr<Group> group, Role role, bool is_output);
  /// Those that the same node saved before, on this thread; null: none
  static std::shared_ptr<Group> saved_before(Site& site);
  Description describe() override;
  void compare(const at::Tensor& tensor);
  void compare_reduced(const at::Tensor& result);
  at::Tensor ones() const;

  std::shared_ptr<Group> group_;
  std::unique_ptr<HeldTensor> held_;  ///< null if the stash does not want it
  at::Tensor kept_;                   ///< set then
  Role role_;
  bool is_output_;
};

}  // namespace cinch::hooks
