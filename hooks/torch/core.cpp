// SPDX-License-Identifier: Apache-2.0
//
// Entry points of libcinch_torch.so: cinch_core_open, which libcinch.so calls when torch is there;
// the callbacks for the functions that libcinch.so interposes; and a report query for tests.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include <unistd.h>

#include "allocator/torch/host_allocator.h"
#include "files/terminal.h"
#include "hooks/preload/core_abi.h"
#include "hooks/preload/environment.h"
#include "hooks/torch/autograd/engine.h"
#include "hooks/torch/autograd/held/held_compared.h"
#include "hooks/torch/autograd/held/held_wrapper.h"
#include "hooks/torch/autograd/held/saved_inputs.h"
#include "hooks/torch/autograd/nodes/decompositions.h"
#include "hooks/torch/autograd/nodes/gathered_inputs.h"
#include "hooks/torch/autograd/nodes/unsaved_numbers.h"
#include "hooks/torch/autograd/recognising/recognise.h"
#include "hooks/torch/autograd/register_hooks.h"
#include "hooks/torch/gradients/exact_backward.h"
#include "hooks/torch/gradients/guard_check.h"
#include "hooks/torch/gradients/observer.h"
#include "hooks/torch/outside/control.h"
#include "hooks/torch/outside/reclaim.h"
#include "hooks/torch/outside/report.h"
#include "hooks/torch/outside/snapshot_request.h"
#include "hooks/torch/outside/telemetry.h"
#include "hooks/torch/process/cuda_plugin.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/program/python_tensor.h"
#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/figures/listeners.h"
#include "hooks/torch/stash/module_names.h"
#include "hooks/torch/stash/saved/verdict.h"
#include "hooks/torch/stash/stash.h"
#include "policy/policy.h"

namespace cinch::hooks {
namespace {

// The plane of the last max-pool input saved on this thread. The indices that the same operator
// saves next point into this plane.
thread_local Extent pooled_plane = {0, 0, 0};

/// What the operator in `frame` says of an operand through its arguments.
OperatorSays said(SiteNames::Parameters parameters, const OperatorFrame& frame) {
  switch (parameters) {
    case SiteNames::Parameters::numbers:
      return argument_numbers(frame);
    case SiteNames::Parameters::exponent:
      return Exponent{argument_exponent(frame)};
    case SiteNames::Parameters::reduction:
      return Reduction{argument_reduces_linearly(frame)};
    case SiteNames::Parameters::number_type:
      return Numbers{workspace_type(frame)};
    case SiteNames::Parameters::none:
      break;
  }
  return {};
}

Extent trailing_extent(c10::IntArrayRef sizes, int dimensions) {
  Extent extent = {1, 1, 1};
  const auto n = std::min<std::size_t>(static_cast<std::size_t>(dimensions), sizes.size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t size = sizes[sizes.size() - 1 - i];
    if (size > std::numeric_limits<std::int32_t>::max()) return {0, 0, 0};
    extent[2 - i] = static_cast<std::int32_t>(size);
  }
  return extent;
}

/// Whether hooks may keep a tensor of that verdict.
bool may_be_kept(Verdict verdict) {
  return verdict == Verdict::wanted || verdict == Verdict::small || verdict == Verdict::parameter ||
         verdict == Verdict::foreign_storage;
}

/// The hooks for a tensor that autograd is about to save; null: PyTorch keeps it itself.
std::unique_ptr<Held> hooks_for(const at::Tensor& tensor, bool is_output, bool is_inplace_on_view,
                                void* site_address) {
  if (is_output) {
    const auto* const decomposition = decompositions::note_result(tensor);
    if (decomposition != nullptr) {
      stash().note_magnified(decompositions::nodes_before(*decomposition));
    }
  }
  Verdict verdict = stash().judge(tensor, is_output, is_inplace_on_view);
  const bool is_wrapper = verdict == Verdict::not_plain;
  if (is_wrapper) {
    verdict = judge_wrapper(tensor, is_inplace_on_view, stash().settings().min_bytes);
  }
  const auto decline = [&tensor](Verdict why) {
    HeldCompared::note_declined(tensor);
    stash().statistics().declined(why, storage_bytes(tensor));
    return nullptr;
  };
  if (verdict == Verdict::undefined) return nullptr;
  const bool is_wanted = verdict == Verdict::wanted;
  const bool may_be_last = is_wanted || (HeldCompared::awaits_last() && may_be_kept(verdict));
  if (!may_be_last) return decline(verdict);
  Site& site = site_at(site_address);
  // Outputs are exempt: PyTorch itself unpacks an output as a new tensor.
  if (site.python() && !is_output && !is_bare_in_python(*tensor.unsafeGetTensorImpl())) {
    return decline(Verdict::python_object);
  }
  if (learning_sites() || site.names() == nullptr) {
    learn_site(site, tensor.unsafeGetTensorImpl(), is_output);
  }
  const SiteNames* names = site.names();
  const bool may_compare = names != nullptr && !is_wrapper && stash().dry_run() == nullptr;
  if (may_compare && names->compares == SiteNames::Compares::last) {
    if (auto last = HeldCompared::last(site, is_output, is_wanted)) return last;
  }
  if (!is_wanted) return decline(verdict);
  OperatorSays says;
  if (names != nullptr && names->pooled_dimensions != 0 && !is_wrapper) {
    pooled_plane = trailing_extent(tensor.sizes(), names->pooled_dimensions);
  } else if (tensor.scalar_type() == c10::ScalarType::Long) {
    says = std::exchange(pooled_plane, {0, 0, 0});
  }
  if (names != nullptr && names->parameters != SiteNames::Parameters::none) {
    const OperatorFrame* frame = frame_with_arguments(storage_bytes(tensor));
    if (frame != nullptr) says = said(names->parameters, *frame);
  }
  const auto* reduction = std::get_if<Reduction>(&says);
  if (may_compare && (reduction == nullptr || !reduction->is_linear)) {
    if (names->compares == SiteNames::Compares::first) return HeldCompared::first(site);
    if (names->compares == SiteNames::Compares::second) {
      if (auto second = HeldCompared::second(site)) return second;
    }
  }
  Site& saved_at = site.python() ? function_site(site) : site;
  if (!is_wrapper) {
    auto held = std::make_unique<HeldTensor>(saved_at, is_output, says);
    const bool for_others = names != nullptr && names->for_others;
    if (decompositions::reach(tensor, for_others)) held->magnify();
    return held;
  }
  auto wrapper = HeldWrapper::of(tensor, saved_at, is_output, says, verdict);
  if (wrapper == nullptr) return decline(verdict);
  return wrapper;
}

void before_save(const void* tensor_pointer, bool is_output, bool is_inplace_on_view,
                 void* site_address) noexcept {
  count_save();
  try {
    intent.hooks = hooks_for(*static_cast<const at::Tensor*>(tensor_pointer), is_output,
                             is_inplace_on_view, site_address);
  } catch (const std::exception&) {
    intent.hooks = nullptr;  // no memory: PyTorch keeps this tensor itself
  }
  intent.decided = true;
}

void before_register_hooks(void* saved_variable) {
  give_back_to_autograd(saved_variable);
}

void after_sum(const void* result, const void* other) noexcept {
  unsaved_numbers::note(*static_cast<const at::Tensor*>(result),
                        *static_cast<const at::Tensor*>(other));
}

void after_number(const void* result, const void* number) noexcept {
  unsaved_numbers::note(*static_cast<const at::Tensor*>(result),
                        *static_cast<const c10::Scalar*>(number));
}

void after_gather(const void* result, const void* input) noexcept {
  gathered_inputs::note(*static_cast<const at::Tensor*>(result),
                        *static_cast<const at::Tensor*>(input));
}

void at_exit() {
  stash().side().stop();
  stash().adaptation().keep_learned();
  end_telemetry();
  // What is idle must not add to what other libraries read while the process ends.
  stash().release_idle();
  // A process that saved nothing must not replace the report of another process of the same run.
  const char* where = std::getenv("CINCH_REPORT");
  const bool own_file = where != nullptr && std::strstr(where, "%p") != nullptr;
  const bool saved = stash().statistics().rss_at_start() != 0;
  if (saved) {
    leave_last_report();
  } else if (!is_forked_child() && (own_file || (where != nullptr && access(where, F_OK) != 0))) {
    leave_report(current_report());
  }
}

const CoreTable table = {core_abi_version, before_save,  before_register_hooks,
                         after_sum,        after_number, after_gather};

/// Loads the policies listed in CINCH_DRY_RUN, separated by commas. Returns the first error if any.
std::variant<std::vector<policy::Settings>, policy::PolicyError> dry_run_policies() {
  const char* wanted = std::getenv("CINCH_DRY_RUN");
  std::vector<policy::Settings> policies;
  std::string_view rest = wanted == nullptr ? "" : wanted;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    auto loaded = policy::load_settings(rest.substr(0, end));
    if (auto* error = std::get_if<policy::PolicyError>(&loaded)) return *error;
    policies.push_back(std::move(std::get<policy::Settings>(loaded)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return policies;
}

/// The policy in force during a dry run of `policies`: no guard, no allocators.
policy::Settings dry_run_settings(const std::vector<policy::Settings>& policies) {
  policy::Settings settings;
  settings.name = "dry run";
  settings.guard.every_steps = 0;
  settings.allocator_host = settings.allocator_cuda = false;
  for (const policy::Settings& each : policies) {
    settings.min_bytes = std::min(settings.min_bytes, each.min_bytes);
    settings.derive.signs_in_sources |= each.derive.signs_in_sources;
  }
  return settings;
}

/// The policy in an appraisal, which is short: nothing comes from, or goes to, longer runs.
void shorten(policy::Settings& settings, const AppraisalSteps& steps) {
  settings.state_file.clear();
  // COMET's own warm-up ends in time for a second refresh.
  policy::CometSettings& comet = settings.comet;
  comet.every_steps = std::min(comet.every_steps, std::max<std::uint64_t>(steps.warm_up / 2, 1));
  comet.momentum_steps = std::min(comet.momentum_steps, comet.every_steps);
}

void listen_to_the_stash() {
  Listeners& all = listeners();
  if (telemetry_wanted()) {
    all.boundary = [](telemetry::LiveFigures live, const Statistics& statistics) noexcept {
      publish_boundary(live, statistics);
      serve_control(/*python_may_run=*/false);
    };
  }
  all.all_measured = [] { leave_report(current_report()); };
  all.compares = compare_backwards;
  all.event = publish_event;
  all.policy = telemetry_policy;
  all.wants = observe_gradients;
  all.watches = probe_gradients;
}

const CoreTable* start(EngineStub engine_stub) {
  const char* wanted = std::getenv("CINCH_POLICY");
  const std::string name = wanted == nullptr || *wanted == '\0' ? "default" : wanted;
  auto loaded = policy::load_settings(name);
  auto tried = dry_run_policies();
  const auto* error = std::get_if<policy::PolicyError>(&tried);
  if (error == nullptr) error = std::get_if<policy::PolicyError>(&loaded);
  if (error != nullptr) {
    files::say("inactive: " + error->to_string());
    // The one place where Cinch ends a process: CINCH_STRICT asks for exactly that.
    if (is_set("CINCH_STRICT")) _exit(2);
    leave_report(inactive_report(error->to_string(), name));
    return nullptr;
  }
  auto& settings = std::get<policy::Settings>(loaded);
  auto& dry_run = std::get<std::vector<policy::Settings>>(tried);
  if (!dry_run.empty()) settings = dry_run_settings(dry_run);
  const std::optional<AppraisalSteps> appraisal = wanted_appraisal();
  if (appraisal) shorten(settings, *appraisal);
  arrange_snapshot();
  if (!policy::Policy(settings).enabled()) {
    if (settings.allocator_cuda) install_cuda_allocator();
    if (settings.allocator_host) {
      allocator::install_host_allocator(register_fork_lock);
      install_fork_handlers([] {});
    }
    leave_report(inactive_report("the policy is off", settings.name));
    return nullptr;
  }
  if (settings.telemetry && !is_off("CINCH_TELEMETRY")) begin_telemetry(settings.name);
  saved_inputs::register_lock();
  recognise_by(recognise);
  start_stash(std::move(settings), std::move(dry_run), appraisal);
  register_site_locks();
  listen_to_the_stash();
  observe_operators([] {
    name_modules();
    serve_control(/*python_may_run=*/true);
  });
  register_fork_lock(module_names_mutex());
  if (details_wanted()) want_module_names();
  observe_backward();
  observe_nodes();
  if (stash().appraisal() != nullptr) observe_exact_backward();
  if (stash().settings().allocator_cuda) install_cuda_allocator();
  if (stash().settings().allocator_host) allocator::install_host_allocator(register_fork_lock);
  let_allocators_ask_the_stash();
  install_fork_handlers([] {
    stash().begin_in_child();
    begin_telemetry_in_child();
  });
  std::atexit(at_exit);
  // EngineStub returns a reference. The preload library has no torch types and declares it void*.
  take_over_engine(
      reinterpret_cast<torch::autograd::EngineStub>(reinterpret_cast<void (*)()>(engine_stub)));
  return &table;
}

}  // namespace
}  // namespace cinch::hooks

#define CINCH_EXPORT extern "C" __attribute__((visibility("default")))

CINCH_EXPORT const cinch::CoreTable* cinch_core_open(cinch::EngineStub engine_stub) {
  try {
    return cinch::hooks::start(engine_stub);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cinch: inactive: %s\n", error.what());
    return nullptr;
  }
}

// Writes the current report as JSON to `buffer` of `capacity` bytes, zero-terminated and truncated
// if it does not fit. Returns the length of the whole text without the zero; 0 on errors.
CINCH_EXPORT std::size_t cinch_report_json(char* buffer, std::size_t capacity) {
  try {
    const std::string json = cinch::telemetry::to_json(
        cinch::hooks::has_stash() ? cinch::hooks::current_report()
                                  : cinch::hooks::inactive_report("the policy is off", "off"));
    if (capacity != 0) {
      const std::size_t n = std::min(json.size(), capacity - 1);
      std::memcpy(buffer, json.data(), n);
      buffer[n] = '\0';
    }
    return json.size();
  } catch (const std::exception&) {
    return 0;
  }
}
