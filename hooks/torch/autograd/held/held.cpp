// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/held/held.h"

#include <sstream>

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/process/python_reader.h"

namespace cinch::hooks {

void Held::note(const at::Tensor& tensor, bool is_output) {
  version_ = torch::autograd::impl::version_counter(tensor);
  saved_version_ = version_.current_version();
  if (const auto& grad_fn = tensor.grad_fn()) {
    was_leaf_ = false;
    grad_fn_ = grad_fn;
  }
  if (is_output) output_nr_ = static_cast<std::uint32_t>(tensor.output_nr());
}

void Held::watch(const at::Tensor& tensor) {
  was_view_ = !was_leaf_ && tensor.is_view();
  original_ = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr());
}

at::Tensor Held::call_unpack_hook() {
  const TimeInCinch time;
  refuse_detached();
  check_version();
  return restore(is_read_by_python() ? Reader::program : Reader::node);
}

// The grad_fn that PyTorch's error would name for the modified tensor: an input's current one.
std::string Held::current_grad_fn_name() const {
  NodePointer grad_fn;
  if (const auto tensor = original()) {
    grad_fn = at::Tensor(tensor).grad_fn();
  } else if (was_view_) {
    return rebased_view_in_errors;
  } else {
    grad_fn = grad_fn_.lock();
  }
  return grad_fn == nullptr ? "" : name_in_errors(*grad_fn);
}

// As torch/csrc/autograd/saved_variable.cpp does for a saved original without a grad_fn.
void Held::refuse_detached() const {
  // Only a backward is refused, not a program that reads grad_fn._saved_self itself. An output has
  // no original.
  if (was_leaf_ || torch::autograd::get_current_node() == nullptr) return;
  const auto tensor = original();
  if (tensor == nullptr) return;
  TORCH_CHECK(at::Tensor(tensor).grad_fn(),
              "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
              "This is not supported, please use out-of-place `.detach()` instead");
}

// The text is PyTorch's own (SavedVariable::unpack), word for word.
void Held::check_version() {
  const std::uint32_t current = version_.current_version();
  if (current == saved_version_) return;
  const Description saved = describe();
  std::ostringstream message;
  message << "one of the variables needed for gradient computation has been modified by an inplace "
             "operation: ["
          << saved.type << " ";
  if (const auto tensor = original()) {
    message << tensor->sizes();
  } else {
    message << c10::IntArrayRef(saved.sizes);
  }
  message << "]";
  if (const std::string node = current_grad_fn_name(); !node.empty()) {
    message << ", which is output " << output_nr_ << " of " << node << ",";
  }
  message << " is at version " << current << "; expected version " << saved_version_ << " instead.";
  if (!torch::autograd::AnomalyMode::is_enabled()) {
    message << " Hint: enable anomaly detection to find the operation that failed to compute its "
               "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).";
  } else {
    message << " Hint: the backtrace further above shows the operation that failed to compute its "
               "gradient. The variable in question was changed in there or anywhere later. Good "
               "luck!";
  }
  TORCH_CHECK(false, message.str());
}

}  // namespace cinch::hooks
