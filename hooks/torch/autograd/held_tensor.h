// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "hooks/torch/autograd/saved_inputs.h"
#include "hooks/torch/program/autograd_node.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

/// The saved-tensor hooks of one saved variable that the stash holds: autograd calls them to pack
/// and unpack it. When hooks are set, PyTorch skips its version check and the refusal of a tensor
/// that was detached in place; this class does both, with PyTorch's texts.
class HeldTensor final : public torch::autograd::SavedVariableHooks {
 public:
  /// For a tensor that has not been judged: packing judges it, and holds an unwanted one as it is.
  HeldTensor();
  /// For a tensor that was judged to be wanted. @param site Where it is saved.
  HeldTensor(Site& site, bool is_output, OperatorSays operator_says = {});
  HeldTensor(const HeldTensor&) = delete;
  HeldTensor& operator=(const HeldTensor&) = delete;
  ~HeldTensor() override;

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return std::nullopt;
  }

  /// The tensor's values, without the version check, for a user's hooks that replace these.
  /// @throws c10::Error if the values are not held (only signs, or the shape)
  at::Tensor restore_for_program() { return restore(Reader::program); }

  /// The tensor as it was saved, for as long as the stash knows its exact values; else undefined.
  /// @throws c10::Error when there is no memory
  at::Tensor exact() const;

  /// The tensor's entry; null if the stash did not take the tensor.
  Entry* entry() const noexcept { return entry_; }
  const Use& use() const noexcept { return use_; }
  /// The tensor's version counter, and its count when the tensor was saved.
  const c10::VariableVersion& version() const noexcept { return version_; }
  std::uint32_t saved_version() const noexcept { return saved_version_; }
  bool is_as_saved() const { return version_.current_version() == saved_version_; }
  /// The node that made the tensor, while it lives; null for leaves and outputs.
  NodePointer producer() const { return grad_fn_.lock(); }

 private:
  at::Tensor restore(Reader reader);
  at::Tensor changed_original() const;
  void list(const at::Tensor& tensor) noexcept;
  std::string current_grad_fn_name() const;
  void refuse_detached() const;
  void check_version() const;
  std::string type_name() const;

  Use use_;
  Entry* entry_ = nullptr;
  at::Tensor alias_;  ///< the tensor itself if the stash did not take it
  c10::VariableVersion version_{c10::VariableVersion::DISABLED};
  std::uint32_t saved_version_ = 0;
  std::uint32_t output_nr_ : 28 = 0;  ///< of outputs; PyTorch leaves it 0 for inputs
  bool is_other_form_ : 1 = false;    ///< it is listed as another form of a value
  bool judged_ : 1 = true;
  bool was_leaf_ : 1 = true;
  bool was_view_ : 1 = false;  ///< an input that is a differentiable view
  WeakNodePointer grad_fn_{NodePointer()};
  saved_inputs::Key listed_ = 0;  ///< its key among the saved inputs; 0: it is not listed
  /// The input that was saved, to notice that it was detached in place or given other data by
  /// `x.data = ...`; null for outputs, and for tensors that packing judged.
  c10::weak_intrusive_ptr<c10::TensorImpl> original_{c10::intrusive_ptr<c10::TensorImpl>()};
};

}  // namespace cinch::hooks
