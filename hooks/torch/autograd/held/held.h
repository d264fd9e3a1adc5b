// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "hooks/torch/gradients/callback_time.h"
#include "hooks/torch/program/autograd_node.h"
#include "hooks/torch/stash/entry_reader.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

/// The saved-tensor hooks of one saved variable that Cinch holds: autograd calls them to pack and
/// unpack it. When hooks are set, PyTorch skips its version check and the refusal of a tensor that
/// was detached in place; this class does both, with PyTorch's texts. How the values are held is
/// left to those who derive from it.
class Held : public torch::autograd::SavedVariableHooks {
 public:
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  at::Tensor call_unpack_hook() final;
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const final {
    return std::nullopt;
  }

  /// The tensor's values, without the version check, as for a user's hooks that replace these.
  /// @throws c10::Error if the values are not held (only signs, or the shape)
  virtual at::Tensor restore(Reader reader) = 0;

  /// The tensor's version counter, and its count when the tensor was saved.
  const c10::VariableVersion& version() const noexcept { return version_; }
  std::uint32_t saved_version() const noexcept { return saved_version_; }
  bool is_as_saved() const { return version_.current_version() == saved_version_; }
  /// The node that made the tensor, while it lives; null for leaves and outputs.
  NodePointer producer() const { return grad_fn_.lock(); }

 protected:
  /// Adds its lifetime to the time spent in Cinch.
  class TimeInCinch {
   public:
    TimeInCinch() = default;
    TimeInCinch(const TimeInCinch&) = delete;
    TimeInCinch& operator=(const TimeInCinch&) = delete;
    ~TimeInCinch() {
      if (CallbackTime::here()) return;
      stash().statistics().spent(watch_.nanoseconds());
    }

   private:
    Stopwatch watch_;
  };

  /// For the error of a tensor that was modified: PyTorch's name of its type, and its sizes.
  struct Description {
    std::string type;
    std::vector<std::int64_t> sizes;
  };

  /// Notes what the checks need of `tensor`, which is being saved.
  void note(const at::Tensor& tensor, bool is_output);
  /// Notes the input `tensor` itself, to see whether it was detached or given other data.
  void watch(const at::Tensor& tensor);
  /// What `restore` gives: as in PyTorch, it and the original share one version counter.
  at::Tensor with_version(at::Tensor tensor) const {
    tensor.unsafeGetTensorImpl()->set_version_counter(version_);
    return tensor;
  }
  bool was_leaf() const noexcept { return was_leaf_; }
  /// The input that `watch` noted, while it lives; else null.
  c10::intrusive_ptr<c10::TensorImpl> original() const { return original_.lock(); }

 private:
  /// What the error says of the tensor.
  virtual Description describe() = 0;

  void refuse_detached() const;
  void check_version();
  std::string current_grad_fn_name() const;

  c10::VariableVersion version_{c10::VariableVersion::DISABLED};
  std::uint32_t saved_version_ = 0;
  std::uint32_t output_nr_ : 28 = 0;  ///< of outputs; PyTorch leaves it 0 for inputs
  bool was_leaf_ : 1 = true;
  bool was_view_ : 1 = false;  ///< an input that is a differentiable view
  WeakNodePointer grad_fn_{NodePointer()};
  /// The input that was saved, to notice that it was detached in place or given other data by
  /// `x.data = ...`; null for outputs, and for tensors that packing judged.
  c10::weak_intrusive_ptr<c10::TensorImpl> original_{c10::intrusive_ptr<c10::TensorImpl>()};
};

}  // namespace cinch::hooks
