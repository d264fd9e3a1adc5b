// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/compiled_region.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/interpreter.h"
#include "hooks/torch/process/python.h"
#include "hooks/torch/program/backward_graph_program.h"
#include "hooks/torch/program/op_context.h"
#include "policy/operators/backward_reads.h"

namespace cinch::hooks {
namespace {

/// Of each tensor that a region saves.
using RegionReads = std::vector<std::vector<policy::BackwardRead>>;

struct Regions {
  std::mutex mutex;
  std::unordered_map<long long, std::unique_ptr<const RegionReads>> by_class;
};
Regions& regions() {
  static auto& instance = *new Regions;
  return instance;
}

/// Replaces the owned reference `object` by one to `get` of it; null stays null.
void* step(void* (*get)(void*, const char*), void* object, const char* name) {
  void* got = object == nullptr ? nullptr : get(object, name);
  if (object != nullptr) python().drop(object);
  return got;
}

/// The class whose apply(), a class method, saves now, from the Python frame that runs: an owned
/// reference, or null and perhaps an error. Until torch 2.12 that frame is apply()'s own.
/// Since 2.14 at the latest apply() is not written in Python, and the frame is its caller's,
/// AOTAutograd's, which knows the bound method as `f`.
void* class_that_saves(void* frame) {
  void* const locals = python().attribute(frame, "f_locals");
  if (locals == nullptr) return nullptr;
  void* found = python().item(locals, "cls");
  if (found == nullptr) {
    python().clear_error();
    found = step(python().attribute, python().item(locals, "f"), "__self__");
  }
  python().drop(locals);
  return found;
}

/// The number that torch gives each autograd.Function class, of the class that saves now.
std::optional<long long> number_of_class_that_saves() {
  if (!python().found || !holds_interpreter() || python().error_occurred() != nullptr) return {};
  void* const frame = python().frame();
  if (frame == nullptr) return {};
  void* object = step(python().attribute, class_that_saves(frame), "_backward_cls");
  object = step(python().attribute, object, "_autograd_function_id");
  std::optional<long long> number;
  if (object != nullptr) {
    number = python().number(object);
    python().drop(object);
  }
  if (python().error_occurred() == nullptr) return number;
  python().clear_error();
  return {};
}

const RegionReads* region_that_saves() {
  const auto number = number_of_class_that_saves();
  if (!number) return nullptr;
  Regions& all = regions();
  {
    const std::lock_guard lock(all.mutex);
    const auto known = all.by_class.find(*number);
    if (known != all.by_class.end()) return known->second.get();
  }
  // Without the lock, since Python may wait for other threads.
  const std::string program = "number = " + std::to_string(*number) + '\n';
  const std::string graph = run_python((program + backward_graph_program()).c_str(), "graph");
  auto reads = std::make_unique<const RegionReads>(policy::backward_reads(graph));
  const std::lock_guard lock(all.mutex);
  return all.by_class.emplace(*number, std::move(reads)).first->second.get();
}

}  // namespace

bool is_compiled_region(const char* name) noexcept {
  return std::strcmp(name, "CompiledFunction") == 0;
}

const std::vector<policy::BackwardRead>* reads_of_saved(OperatorFrame& frame) {
  FunctionSaves& saves = saves_of(frame);
  if (!saves.is_looked_for) {
    saves.region = region_that_saves();
    saves.is_looked_for = true;
  }
  if (saves.region == nullptr || saves.count == 0 || saves.count > saves.region->size()) {
    return nullptr;
  }
  const auto& reads = (*saves.region)[saves.count - 1];
  return reads.empty() ? nullptr : &reads;
}

void register_compiled_region_lock() {
  register_fork_lock(regions().mutex);
}

}  // namespace cinch::hooks
