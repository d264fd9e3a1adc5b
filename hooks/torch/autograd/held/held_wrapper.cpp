// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/held/held_wrapper.h"

#include <cstddef>
#include <optional>

#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {

std::unique_ptr<HeldWrapper> HeldWrapper::of(const at::Tensor& tensor, Site& site, bool is_output,
                                             const OperatorSays& operator_says, Verdict& verdict) {
  const TimeInCinch time;
  verdict = Verdict::not_plain;
  std::optional<TakenApart> whole = take_apart(tensor);
  if (!whole) return nullptr;
  std::unique_ptr<HeldWrapper> wrapper(new HeldWrapper(std::move(whole->plan), is_output));
  std::size_t largest = 0;
  bool is_wanted = false;
  for (at::Tensor& each : whole->plain) {
    // Integers are kept, as an input's are: a jagged tensor knows another by the same offsets.
    const Verdict of_part = stash().judge(each, false, false);
    if (const std::size_t bytes = storage_bytes(each); bytes > largest) {
      largest = bytes;
      verdict = of_part;
    }
    std::unique_ptr<HeldTensor> held;
    if (of_part == Verdict::wanted) {
      is_wanted = true;
      // What no operator is known of is held without an error.
      held = whole->is_elementwise ? std::make_unique<HeldTensor>(site, is_output, operator_says)
                                   : std::make_unique<HeldTensor>(site_at(nullptr), is_output);
    }
    // What is kept must not keep the graph of what it is a view of.
    at::Tensor part = held == nullptr && each.is_view() ? each.tensor_data() : std::move(each);
    wrapper->parts_.push_back({std::move(part), std::move(held)});
  }
  return is_wanted ? std::move(wrapper) : nullptr;
}

void HeldWrapper::call_pack_hook(const at::Tensor& tensor) {
  note(tensor, is_output_);
  if (!is_output_) watch(tensor);
  for (Part& part : parts_) {
    if (part.held == nullptr) continue;
    part.held->call_pack_hook(part.tensor);
    part.tensor.reset();
  }
}

at::Tensor HeldWrapper::restore(Reader reader) {
  std::vector<at::Tensor> plain;
  for (const Part& part : parts_) {
    plain.push_back(part.held == nullptr ? part.tensor : part.held->restore(reader));
  }
  return with_version(put_together(plan_, plain));
}

Held::Description HeldWrapper::describe() {
  const at::Tensor tensor = restore(Reader::node);
  return {tensor.toString(), tensor.sizes().vec()};
}

}  // namespace cinch::hooks
