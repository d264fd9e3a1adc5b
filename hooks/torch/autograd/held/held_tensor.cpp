// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/held/held_tensor.h"

#include <ATen/core/TensorBase.h>
#include <c10/util/SmallVector.h>

#include "hooks/torch/autograd/held/tensor_over.h"
#include "hooks/torch/autograd/nodes/decompositions.h"
#include "hooks/torch/autograd/nodes/linear_outputs.h"
#include "hooks/torch/autograd/nodes/members.h"
#include "hooks/torch/process/no_throw.h"
#include "hooks/torch/program/backward.h"
#include "hooks/torch/program/node_number.h"
#include "hooks/torch/stash/saved/verdict.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

Recogniser recogniser = nullptr;

/// Notes what a decomposition by an autograd.Function, whose backward runs, was made of.
void note_if_magnified(const Site& site) noexcept {
  const SiteNames* const names = site.names();
  if (names == nullptr || !decompositions::is_function(names->op)) return;
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return;
  if_memory_allows([&] { stash().note_magnified(decompositions::nodes_before(*node)); });
}

}  // namespace

void recognise_by(Recogniser by) noexcept {
  recogniser = by;
}

HeldTensor::HeldTensor(Site& site, bool is_output, OperatorSays operator_says) {
  use_.site = &site;
  use_.is_output = is_output;
  use_.operator_says = operator_says;
}

HeldTensor::~HeldTensor() {
  if (listed_ != 0) saved_inputs::remove(listed_, *this);
  if (entry_ != nullptr) stash().release(*entry_, use_);
}

void HeldTensor::call_pack_hook(const at::Tensor& tensor) {
  const TimeInCinch time;
  note(tensor, use_.is_output);
  if (use_.site == nullptr) {
    use_.site = &site_at(nullptr);
    if (stash().judge(tensor, false, false) != Verdict::wanted) {
      alias_ = tensor.is_leaf() ? tensor : tensor.tensor_data();
      return;
    }
  } else if (!use_.is_output) {
    watch(tensor);
  }
  use_.type = tensor.scalar_type();
  use_.is_conjugate = tensor.is_conj();
  use_.sequence = static_cast<std::uint32_t>(new_nodes_number());
  try {
    use_.geometry = Geometry(tensor);
    if (!use_.is_output) use_.is_linear_output = is_linear_output(tensor);
    const bool in_backward = runs_backward();
    if (in_backward) entry_ = stash().save_again(tensor, use_, saved_version());
    if (entry_ != nullptr) return;
    const bool derives = recogniser != nullptr && stash().derives();
    entry_ =
        &stash().save(tensor, use_, derives ? recogniser(tensor, *use_.site) : OfferedRecipe());
    if (derives && !use_.is_output && !was_leaf()) list(tensor);
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
  if (key == 0 || !if_memory_allows([&] { saved_inputs::add(key, *this); })) return;
  listed_ = key;
  if_memory_allows([&] { saved_inputs::add_other_form(producer, output, *this); });
}

at::Tensor HeldTensor::exact() const {
  if (entry_ == nullptr) return {};
  c10::Storage values = stash().exact().of(*entry_);
  if (!values) return {};
  return tensor_over(std::move(values), device_type(*entry_), use_.type, use_.geometry);
}

bool HeldTensor::note_comparisons(std::initializer_list<HeldTensor*> all) {
  c10::SmallVector<Stash::Compared, 3> compared;
  for (HeldTensor* each : all) {
    if (each == nullptr) continue;
    if (each->entry_ == nullptr) return false;
    compared.emplace_back(each->entry_, &each->use_);
  }
  return stash().note_comparisons(compared);
}

at::Tensor HeldTensor::restore(Reader reader) {
  if (entry_ == nullptr) return alias_;
  if (use_.site->python()) note_if_magnified(*use_.site);
  if (at::Tensor changed = changed_original(); changed.defined()) return changed;
  c10::Storage storage = stash().restore(*entry_, use_, reader);
  if (reader == Reader::node && builds_graph_in_backward()) {
    stash().note_read(storage, *entry_, use_, saved_version());
  }
  at::Tensor tensor =
      tensor_over(std::move(storage), device_type(*entry_), use_.type, use_.geometry);
  if (use_.is_conjugate) tensor.unsafeGetTensorImpl()->_set_conj(true);
  return with_version(std::move(tensor));
}

// PyTorch holds an input as an object, not its memory: after `x.data = ...` backward reads the new
// data. Returns the input with its new data; undefined if the input is gone or unchanged.
at::Tensor HeldTensor::changed_original() const {
  const auto original = this->original();
  if (original == nullptr) return {};
  const at::Tensor tensor(original);
  const bool same =
      original->has_storage() && tensor.scalar_type() == use_.type &&
      tensor.sizes() == use_.geometry.sizes() && tensor.strides().equals(use_.geometry.strides()) &&
      tensor.storage_offset() == use_.geometry.offset() && tensor.is_conj() == use_.is_conjugate &&
      (holds_raw(*entry_, tensor.storage()) || stash().was_taken_as(*entry_, tensor.storage()));
  return same ? at::Tensor() : tensor.tensor_data();
}

Held::Description HeldTensor::describe() {
  if (alias_.defined()) return {alias_.toString(), alias_.sizes().vec()};
  const c10::Device device(device_type(*entry_), 0);
  const at::Tensor empty = tensor_over(c10::Storage(c10::Storage::use_byte_size_t(), 0,
                                                    c10::DataPtr(nullptr, device), nullptr, false),
                                       device.type(), use_.type, Geometry());
  return {empty.toString(), use_.geometry.sizes().vec()};
}

HeldTensor* held_by_stash(torch::autograd::SavedVariable& saved) {
  auto* held = dynamic_cast<HeldTensor*>(members::hooks_of(saved).get());
  return held == nullptr || held->entry() == nullptr ? nullptr : held;
}

at::Tensor exact_of(torch::autograd::SavedVariable& saved) {
  if (!saved.has_hooks()) {
    return members::is_as_saved(saved) ? members::data_of(saved).tensor_data() : at::Tensor();
  }
  const HeldTensor* held = held_by_stash(saved);
  return held != nullptr && held->is_as_saved() ? held->exact() : at::Tensor();
}

}  // namespace cinch::hooks
