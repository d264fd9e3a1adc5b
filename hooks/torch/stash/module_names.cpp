// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/module_names.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <torch/csrc/autograd/function.h>

#include "hooks/torch/process/interpreter.h"
#include "hooks/torch/program/autograd_node.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/program/parameter.h"
#include "hooks/torch/stash/figures/entry_rows.h"
#include "hooks/torch/stash/module_names_program.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

using torch::autograd::Node;

/// How many nodes a search looks at: a parameter far away says nothing about the entry.
constexpr std::size_t most_nodes = 64;
/// A node with more parameters than this is a compiled region, not a layer.
constexpr std::size_t most_parameters = 4;
/// How often names are looked up at most, at steps further and further apart. A look takes tens of
/// milliseconds, and some programs make parameters for ever.
constexpr int most_looks = 8;

/// The parameter that is nearest to the entry of a row.
struct Nearest {
  EntryRow* row;
  const c10::TensorImpl* parameter;
  bool own;
};

using Names = std::unordered_map<const void*, std::string>;

std::atomic<bool> wanted{false};
std::mutex& mutex = module_names_mutex();
auto& names = *new Names;                   // of the last look; under mutex
auto& waiting = *new std::vector<Nearest>;  // under mutex
std::atomic<bool> any_waiting{false};
int looks = 0;                   // under mutex
std::uint64_t next_look_at = 0;  // under mutex

/// The parameters that are direct inputs of `node`.
std::vector<const c10::TensorImpl*> own_parameters(const Node& node) {
  std::vector<const c10::TensorImpl*> parameters;
  for (const auto& edge : node.next_edges()) {
    const c10::TensorImpl* parameter = parameter_behind(edge);
    if (parameter != nullptr && std::ranges::find(parameters, parameter) == parameters.end()) {
      parameters.push_back(parameter);
    }
  }
  return parameters;
}

/// Sets `parameter` and `own` of `found`. Searches breadth first, for the nearest parameter.
bool find_parameter(const Node& reader, Nearest& found) {
  std::vector<const Node*> nodes = {&reader};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto parameters = own_parameters(*nodes[i]);
    if (parameters.size() > most_parameters) return false;
    if (!parameters.empty()) {
      found.parameter = parameters.front();
      found.own = i == 0;
      return true;
    }
    for (const auto& edge : nodes[i]->next_edges()) {
      const Node* next = edge.function.get();
      if (next != nullptr && nodes.size() < most_nodes &&
          std::ranges::find(nodes, next) == nodes.end()) {
        nodes.push_back(next);
      }
    }
  }
  return false;
}

Names names_of_parameters() {
  Names found;
  const std::string answer = run_python(module_names_program(), "names");
  for (std::string_view rest = answer; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t tab = line.find('\t');
    const std::size_t second = line.find('\t', tab + 1);
    if (second == std::string_view::npos) continue;
    std::uintptr_t address = 0;
    std::from_chars(line.data(), line.data() + tab, address);
    found.emplace(reinterpret_cast<const void*>(address), line.substr(tab + 1, second - tab - 1));
  }
  return found;
}

/// Where the last look found the parameter; an empty module if it did not. @pre mutex is held
EntryRow::Where where_is(const Nearest& parameter) {
  const auto at = names.find(parameter.parameter);
  if (at == names.end()) return {};
  return {at->second, parameter.own ? "own" : "after"};
}

}  // namespace

std::mutex& module_names_mutex() noexcept {
  static std::mutex& lock = *new std::mutex;
  return lock;
}

void want_module_names() noexcept {
  wanted.store(true, std::memory_order_relaxed);
}

void note_module(EntryRow& row) noexcept {
  if (!wanted.load(std::memory_order_relaxed)) return;
  try {
    const auto node = torch::autograd::get_current_node();
    if (node == nullptr || row.looked_for.exchange(true)) return;
    Nearest found{&row, nullptr, false};
    if (!find_parameter(*node, found)) return;
    EntryRow::Where where;
    {
      const std::lock_guard lock(mutex);
      // Later another parameter may have the address.
      if (optimizer_steps() < next_look_at) where = where_is(found);
      if (where.module.empty() && looks < most_looks) {
        waiting.push_back(found);
        any_waiting = true;
      }
    }
    if (!where.module.empty()) stash().statistics().entries().place(row, std::move(where));
  } catch (const std::exception&) {
    // No memory: one name less.
  }
}

void name_modules() noexcept {
  if (!any_waiting.load(std::memory_order_relaxed)) return;
  try {
    {
      const std::lock_guard lock(mutex);
      const std::uint64_t step = optimizer_steps();
      if (step < next_look_at) return;
      next_look_at = step * 4;
      ++looks;
    }
    // Without the lock, since Python may wait for other threads.
    Names found = names_of_parameters();
    std::vector<std::pair<EntryRow*, EntryRow::Where>> placed;
    {
      const std::lock_guard lock(mutex);
      names = std::move(found);
      // Those that are not found belong to no module: they are not looked for again.
      for (const Nearest& one : std::exchange(waiting, {})) {
        placed.emplace_back(one.row, where_is(one));
      }
      any_waiting = false;
    }
    EntryRows& rows = stash().statistics().entries();
    for (auto& [row, where] : placed) rows.place(*row, std::move(where));
  } catch (const std::exception&) {
    // No memory: no names.
  }
}

}  // namespace cinch::hooks
