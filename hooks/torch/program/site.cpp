// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/site.h"

#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include <dlfcn.h>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/program/compiled_region.h"
#include "hooks/torch/program/op_context.h"
#include "policy/operators/backward_reads.h"
#include "policy/operators/operand.h"

namespace cinch::hooks {
namespace {

struct Table {
  std::mutex mutex;
  std::deque<Site> sites;  // a deque: addresses stay
  std::unordered_map<void*, Site*> by_address;
  std::unordered_map<std::string, Site*> by_function;
};
Table& table() {
  static auto& instance = *new Table;
  return instance;
}
std::mutex& names_mutex() {
  static auto& instance = *new std::mutex;
  return instance;
}

std::atomic<std::uint64_t> changes{0};

bool contains(const char* text, const char* part) {
  return text != nullptr && std::strstr(text, part) != nullptr;
}

// 2 for "aten::max_pool2d_with_indices"; 0 for operators that are no max-pool.
int pooled_dimensions(const char* op) {
  static constexpr char pool[] = "max_pool";
  const char* found = std::strstr(op, pool);
  if (found == nullptr) return 0;
  const char digit = found[sizeof pool - 1];
  return digit >= '1' && digit <= '3' ? digit - '0' : 0;
}

SiteNames::Parameters parameters_of(const char* op, const std::string& operand,
                                    const policy::OperandFact& fact) {
  using enum SiteNames::Parameters;
  switch (fact.kind) {
    case policy::OperandKind::base:
    case policy::OperandKind::normed:
      return exponent;
    case policy::OperandKind::reduced:
      return reduction;
    default:
      break;
  }
  if (contains(op, "::mkldnn_rnn_layer") && operand == "result3") return number_type;
  const bool are_known = fact.interval == policy::Interval::between_3;
  return fact.reads == codecs::Reads::interval && !are_known ? numbers : none;
}

SiteNames::Compares compares_of(const char* op, const std::string& operand,
                                policy::OperandKind kind) {
  using enum SiteNames::Compares;
  if (kind == policy::OperandKind::reduced && is_scatter_reduce(op)) {
    return operand == "self" ? first : operand == "src" ? second : last;
  }
  if (kind != policy::OperandKind::compared) return nothing;
  const bool has_result = policy::operand_fact(op, "other").kind != policy::OperandKind::compared;
  return operand == (has_result ? "self" : "other") ? first : last;
}

// Recognises torch's helpers that save for many operators: Python's autograd.Function, C++'s
// torch::autograd::Function, and std::vector<SavedVariable> for lists of tensors.
Site::Kind kind_of(void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return Site::Kind::many;
  if (contains(info.dli_fname, "libtorch_python")) return Site::Kind::python;
  const bool many = !contains(info.dli_fname, "libtorch") ||
                    contains(info.dli_sname, "AutogradContext") ||
                    contains(info.dli_sname, "SavedVariableE");
  return many ? Site::Kind::many : Site::Kind::one;
}

Site& find_or_create(void* address) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  Site*& slot = t.by_address[address];
  if (slot == nullptr) {
    slot = &t.sites.emplace_back(kind_of(address));
    changes.fetch_add(1, std::memory_order_relaxed);
  }
  return *slot;
}

}  // namespace

Site& site_at(void* address) {
  struct Line {
    void* address;
    Site* site;
  };
  static thread_local std::array<Line, 256> cache{};
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  Line& line = cache[(bits ^ (bits >> 8)) % cache.size()];
  if (line.site == nullptr || line.address != address) line = {address, &find_or_create(address)};
  return *line.site;
}

void register_site_locks() {
  register_fork_lock(table().mutex);
  register_fork_lock(names_mutex());
  register_compiled_region_lock();
}

std::uint64_t site_changes() noexcept {
  return changes.load(std::memory_order_relaxed);
}

void learn_site(Site& site, const void* tensor_impl, bool is_output) {
  if (learning_sites()) saved_while_learning();
  if (site.shared()) return;
  OperatorFrame* frame = current_frame(Recording::tensors);
  if (frame == nullptr) {
    if (site.names() != nullptr) return;
    if (learning_sites()) {
      site.could_not_name();
    } else {
      changes.fetch_add(1, std::memory_order_relaxed);
      learn_sites();
    }
  } else if (is_output) {
    // For in-place operators too, although their output is also an argument.
    name_output_later(*frame, site, tensor_impl);
  } else {
    site.name(frame_name(*frame), argument_name(*frame, tensor_impl));
  }
}

Site& function_site(Site& site) {
  OperatorFrame* frame = frame_with_name();
  // Operators have a namespace, classes have none.
  if (frame == nullptr || contains(frame_name(*frame), "::")) return site;
  SiteNames names{frame_name(*frame), ""};
  const auto* reads = is_compiled_region(names.op.c_str()) ? reads_of_saved(*frame) : nullptr;
  if (reads != nullptr) {
    names.operand = policy::in_words(*reads);
    names.reads = *reads;
  }
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  Site*& known = t.by_function[names.op + '\n' + names.operand];
  if (known == nullptr) known = &t.sites.emplace_back(std::move(names));
  return *known;
}

Site::Site(SiteNames names)
    : shared_(false), python_(true), names_(new SiteNames(std::move(names))) {}

void Site::name(const char* op, std::string operand) {
  const SiteNames* known = names_.load(std::memory_order_acquire);
  const bool same_op = known != nullptr && known->op == op;
  if (same_op && (operand.empty() || known->operand == operand)) return;
  const std::lock_guard lock(names_mutex());
  if (known != nullptr && !(same_op && known->operand.empty())) {
    shared_.store(true, std::memory_order_relaxed);
    return;
  }
  const int pooled = operand == "self" ? pooled_dimensions(op) : 0;
  const policy::OperandFact fact = policy::operand_fact(op, operand);
  const auto parameters = parameters_of(op, operand, fact);
  const auto compares = compares_of(op, operand, fact.kind);
  names_.store(new SiteNames{op, std::move(operand), pooled, parameters, compares, fact.for_others},
               std::memory_order_release);
  changes.fetch_add(1, std::memory_order_relaxed);
}

void Site::could_not_name() noexcept {
  constexpr int most = 4;
  if (attempts_.fetch_add(1, std::memory_order_relaxed) >= most) {
    shared_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace cinch::hooks
