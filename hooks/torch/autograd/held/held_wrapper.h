// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "hooks/torch/autograd/held/held.h"
#include "hooks/torch/autograd/held/held_tensor.h"
#include "hooks/torch/program/site.h"
#include "hooks/torch/program/wrapper_tensor.h"
#include "hooks/torch/stash/saved/verdict.h"

namespace cinch::hooks {

/// A saved tensor of a wrapper subclass. The stash holds those of its plain tensors that it wants,
/// each as a use of its own; the others are kept. One may be derived if it became a part after it
/// was computed; what is computed with wrappers is stored, since autograd's nodes speak of the
/// whole. Where it is not known what an error in a part means for the whole, there is none.
class HeldWrapper final : public Held {
 public:
  /// The hooks for `tensor`, if it is a wrapper and the stash wants something in it; else null.
  /// Sets `verdict` to the one on its largest part; to not_plain if there is none.
  /// Runs Python. @param site Where it is saved. @throws std::exception when there is no memory
  static std::unique_ptr<HeldWrapper> of(const at::Tensor& tensor, Site& site, bool is_output,
                                         const OperatorSays& operator_says, Verdict& verdict);

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor restore(Reader reader) override;

 private:
  struct Part {
    at::Tensor tensor;                 ///< what is kept, and until it is packed what is to be held
    std::unique_ptr<HeldTensor> held;  ///< null if the stash does not want it
  };

  HeldWrapper(PythonReference plan, bool is_output)
      : plan_(std::move(plan)), is_output_(is_output) {}
  Description describe() override;

  PythonReference plan_;
  std::vector<Part> parts_;
  bool is_output_;
};

}  // namespace cinch::hooks
