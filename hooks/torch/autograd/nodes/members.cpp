// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/members.h"

namespace cinch::hooks::members {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;

// Access checks don't apply to explicit template instantiations ([temp.spec]/6), which gives us the
// members without assuming their offsets.
template <typename Tag, typename Tag::Member member>
struct Expose {
  friend typename Tag::Member member_of(Tag) { return member; }
};
struct Hooks {
  using Member = std::unique_ptr<SavedVariableHooks> SavedVariable::*;
  friend Member member_of(Hooks);
};
struct Data {
  using Member = at::Tensor SavedVariable::*;
  friend Member member_of(Data);
};
struct SavedVersion {
  using Member = std::uint32_t SavedVariable::*;
  friend Member member_of(SavedVersion);
};
struct Mutex {
  using Member = std::mutex Node::*;
  friend Member member_of(Mutex);
};
template struct Expose<Hooks, &SavedVariable::hooks_>;
template struct Expose<Data, &SavedVariable::data_>;
template struct Expose<SavedVersion, &SavedVariable::saved_version_>;
template struct Expose<Mutex, &Node::mutex_>;

}  // namespace

std::unique_ptr<SavedVariableHooks>& hooks_of(SavedVariable& saved) {
  return saved.*member_of(Hooks{});
}

at::Tensor& data_of(SavedVariable& saved) {
  return saved.*member_of(Data{});
}

bool is_as_saved(SavedVariable& saved) {
  // The saved data and the original tensor share one version counter.
  const auto& counter = data_of(saved).unsafeGetTensorImpl()->version_counter();
  return counter.current_version() == saved.*member_of(SavedVersion{});
}

std::mutex& mutex_of(Node& node) {
  return node.*member_of(Mutex{});
}

}  // namespace cinch::hooks::members
