// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/held_tensor.h"

#include <sstream>

#include <ATen/SequenceNumber.h>
#include <ATen/core/TensorBase.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/autograd/recognise.h"
#include "hooks/torch/gradients/callback_time.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/process/python_reader.h"
#include "hooks/torch/stash/entry/verdict.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

// Adds its lifetime to the time spent in Cinch.
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

at::Tensor make_tensor(c10::Storage storage, c10::DeviceType device, c10::ScalarType type,
                       const Geometry& geometry) {
  const c10::DispatchKeySet keys(device == c10::kCUDA ? c10::DispatchKey::CUDA
                                                      : c10::DispatchKey::CPU);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys,
                                                         c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes(), geometry.strides(),
                                                      geometry.offset());
  return tensor;
}

c10::DeviceType device_type(const Entry& entry) {
  return entry.device == nullptr ? c10::kCPU : c10::kCUDA;
}

}  // namespace

HeldTensor::HeldTensor() : judged_(false) {
  use_.site = &site_at(nullptr);
}

HeldTensor::HeldTensor(Site& site, bool is_output, OperatorSays operator_says) {
  use_.site = &site;
  use_.is_output = is_output;
  use_.operator_says = operator_says;
}

HeldTensor::~HeldTensor() {
  if (listed_ != 0) saved_inputs::remove(listed_, *this);
  if (is_other_form_) saved_inputs::remove_other_form(*this);
  if (entry_ != nullptr) stash().release(*entry_, use_);
}

void HeldTensor::call_pack_hook(const at::Tensor& tensor) {
  const TimeInCinch time;
  version_ = torch::autograd::impl::version_counter(tensor);
  saved_version_ = version_.current_version();
  if (const auto& grad_fn = tensor.grad_fn()) {
    was_leaf_ = false;
    grad_fn_ = grad_fn;
  }
  if (use_.is_output) {
    output_nr_ = static_cast<std::uint32_t>(tensor.output_nr());
  } else if (judged_) {
    was_view_ = !was_leaf_ && tensor.is_view();
    original_ = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr());
  }
  if (!judged_ && stash().judge(tensor, false, false) != Verdict::wanted) {
    alias_ = tensor.is_leaf() ? tensor : tensor.tensor_data();
    return;
  }
  use_.type = tensor.scalar_type();
  use_.is_conjugate = tensor.is_conj();
  use_.sequence = static_cast<std::uint32_t>(at::sequence_number::peek() -
                                             1);  // of the node that is being made
  try {
    use_.geometry = Geometry(tensor);
    const bool in_backward = runs_backward();
    if (in_backward) entry_ = stash().save_again(tensor, use_, saved_version_);
    if (entry_ != nullptr) return;
    const bool derives = stash().derives();
    entry_ = &stash().save(tensor, use_, derives ? recognise(tensor, *use_.site) : nullptr);
    if (derives && !use_.is_output && !was_leaf_) list(tensor);
  } catch (const std::exception&) {
    // No memory for bookkeeping: hold the tensor as PyTorch would, but without its grad_fn, by
    // which an output would keep itself alive.
    alias_ = tensor.tensor_data();
  }
}

// Lists this input so that values computed from it may be derived; does not if memory is short.
void HeldTensor::list(const at::Tensor& tensor) noexcept {
  const auto output = static_cast<std::uint32_t>(tensor.output_nr());
  const torch::autograd::Node& producer = *tensor.grad_fn();
  const saved_inputs::Key key = saved_inputs::key_of(producer, output);
  if (key != 0 && if_memory_allows([&] { saved_inputs::add(key, *this); })) listed_ = key;
  if_memory_allows([&] { is_other_form_ = saved_inputs::add_other_form(producer, *this); });
}

at::Tensor HeldTensor::call_unpack_hook() {
  const TimeInCinch time;
  refuse_detached();
  check_version();
  return restore(is_read_by_python() ? Reader::program : Reader::node);
}

at::Tensor HeldTensor::exact() const {
  if (entry_ == nullptr) return {};
  c10::Storage values = stash().exact().of(*entry_);
  if (!values) return {};
  return make_tensor(std::move(values), device_type(*entry_), use_.type, use_.geometry);
}

at::Tensor HeldTensor::restore(Reader reader) {
  if (entry_ == nullptr) return alias_;
  if (at::Tensor changed = changed_original(); changed.defined()) return changed;
  c10::Storage storage = stash().restore(*entry_, use_, reader);
  if (reader == Reader::node && builds_graph_in_backward()) {
    stash().note_read(storage, *entry_, use_, saved_version_);
  }
  at::Tensor tensor =
      make_tensor(std::move(storage), device_type(*entry_), use_.type, use_.geometry);
  if (use_.is_conjugate) tensor.unsafeGetTensorImpl()->_set_conj(true);
  // As in PyTorch, the unpacked tensor and the original share one version counter.
  tensor.unsafeGetTensorImpl()->set_version_counter(version_);
  return tensor;
}

// PyTorch holds an input as an object, not its memory: after `x.data = ...` backward reads the new
// data. Returns the input with its new data; undefined if the input is gone or unchanged.
at::Tensor HeldTensor::changed_original() const {
  const auto original = original_.lock();
  if (original == nullptr) return {};
  const at::Tensor tensor(original);
  const bool same = original->has_storage() && tensor.scalar_type() == use_.type &&
                    tensor.sizes() == use_.geometry.sizes() &&
                    tensor.strides().equals(use_.geometry.strides()) &&
                    tensor.storage_offset() == use_.geometry.offset() &&
                    tensor.is_conj() == use_.is_conjugate && holds_raw(*entry_, tensor.storage());
  return same ? at::Tensor() : tensor.tensor_data();
}

// The grad_fn that PyTorch's error would name for the modified tensor: an input's current one.
std::string HeldTensor::current_grad_fn_name() const {
  NodePointer grad_fn;
  if (const auto original = original_.lock()) {
    grad_fn = at::Tensor(original).grad_fn();
  } else if (was_view_) {
    return rebased_view_in_errors;
  } else {
    grad_fn = grad_fn_.lock();
  }
  return grad_fn == nullptr ? "" : name_in_errors(*grad_fn);
}

// As torch/csrc/autograd/saved_variable.cpp does for a saved original without a grad_fn.
void HeldTensor::refuse_detached() const {
  // Only a backward is refused, not a program that reads grad_fn._saved_self itself.
  if (was_leaf_ || use_.is_output || torch::autograd::get_current_node() == nullptr) return;
  const auto original = original_.lock();
  if (original == nullptr) return;
  TORCH_CHECK(at::Tensor(original).grad_fn(),
              "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
              "This is not supported, please use out-of-place `.detach()` instead");
}

std::string HeldTensor::type_name() const {
  if (alias_.defined()) return alias_.toString();
  const c10::Device device(device_type(*entry_), 0);
  return make_tensor(c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, device),
                                  nullptr, false),
                     device.type(), use_.type, Geometry())
      .toString();
}

// The text is PyTorch's own (SavedVariable::unpack), word for word.
void HeldTensor::check_version() const {
  const std::uint32_t current = version_.current_version();
  if (current == saved_version_) return;
  std::ostringstream message;
  message << "one of the variables needed for gradient computation has been modified by an inplace "
             "operation: ["
          << type_name() << " ";
  if (const auto original = original_.lock()) {
    message << original->sizes();
  } else {
    message << (alias_.defined() ? alias_.sizes() : use_.geometry.sizes());
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
