// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "hooks/torch/autograd/held/held.h"
#include "hooks/torch/autograd/held/saved_inputs.h"
#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/holding/derivation.h"

namespace cinch::hooks {

/// Builds a recipe for a tensor that is being saved at a site; null: there is none.
using Recogniser = OfferedRecipe (*)(const at::Tensor& tensor, Site& site) noexcept;

/// Has what held tensors save derived as `recogniser` says. @pre called once, before the first save
void recognise_by(Recogniser recogniser) noexcept;

/// One saved tensor that the stash holds as a use of its storage's entry.
class HeldTensor final : public Held {
 public:
  /// For a tensor that has not been judged: packing judges it, and holds an unwanted one as it is.
  HeldTensor() = default;
  /// For a tensor that was judged to be wanted. @param site Where it is saved.
  HeldTensor(Site& site, bool is_output, OperatorSays operator_says = {});
  ~HeldTensor() override;

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor restore(Reader reader) override;
  Description describe() override;

  /// The tensor as it was saved, for as long as the stash knows its exact values; else undefined.
  /// @throws c10::Error when there is no memory
  at::Tensor exact() const;

  /// Has the tensor, which is about to be saved, wait for note_comparisons().
  void await_comparison() noexcept { use_.awaits_comparison = true; }

  /// Notes, before the tensor is saved, that an error of it would be magnified (entry.h).
  void magnify() noexcept { use_.is_magnified = true; }

  /// Notes that backward only asks how these tensors compare, which is held elsewhere. A null one
  /// is passed over. @pre they were just saved @return false, and nothing is noted, where an entry
  /// is planned already
  static bool note_comparisons(std::initializer_list<HeldTensor*> all);

  /// The tensor's entry; null if the stash did not take the tensor.
  Entry* entry() const noexcept { return entry_; }
  const Use& use() const noexcept { return use_; }

 private:
  at::Tensor changed_original() const;
  void list(const at::Tensor& tensor) noexcept;

  Use use_;  ///< without a site until it is judged
  Entry* entry_ = nullptr;
  at::Tensor alias_;              ///< the tensor itself if the stash did not take it
  saved_inputs::Key listed_ = 0;  ///< its key among the saved inputs; 0: it is not listed
};

/// The tensor that holds the saved variable in the stash; null if none does.
HeldTensor* held_by_stash(torch::autograd::SavedVariable& saved);

/// What a node saved, not copied: the program's memory, or the exact values that the stash holds.
/// Undefined if these are not known, or it changed since. @pre the variable has a tensor
at::Tensor exact_of(torch::autograd::SavedVariable& saved);

}  // namespace cinch::hooks
