// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/plan_maker.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include <c10/core/DeviceGuard.h>

#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/on_device/on_device.h"
#include "hooks/torch/stash/planning/described_entry.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/verdict.h"
#include "policy/adapting/plane_ranges.h"
#include "policy/layout.h"
#include "policy/operators/operand.h"

namespace cinch::hooks {
namespace {

/// What the policy describes as if all planes had equal ranges, where they share mixed bits: of the
/// same size as with any ranges.
struct EqualPlanes {
  std::vector<std::uint8_t> bits;
  codecs::Description what;

  EqualPlanes(const codecs::Description& described, double mixed_bits) : what(described) {
    if (!(mixed_bits > 0)) return;
    const std::vector<float> equal(static_cast<std::size_t>(what.layout.planes()), 1.0F);
    bits = policy::plane_bits(equal, mixed_bits);
    what.plane_bits = bits;
  }
  EqualPlanes(const EqualPlanes&) = delete;
  EqualPlanes& operator=(const EqualPlanes&) = delete;
};

/// The codec's name in the report. @param chosen Whether an adaptive policy chose the parameters:
/// its error bounds differ by layer and change, so they are left out.
std::string codec_label(const codecs::CodecSpec& spec, double mixed_bits, bool chosen) {
  std::string label = spec.name;
  const auto traits = codecs::codec_traits(spec.name);
  if (mixed_bits > 0) {
    label += " mixed";
  } else if (traits && traits->precision == codecs::Precision::bits) {
    label += " " + std::to_string(spec.bits) + "-bit";
  }
  if (traits && traits->precision == codecs::Precision::error_bound && !chosen) {
    char bound[32];
    std::snprintf(bound, sizeof bound, " %.3g", double{spec.error_bound});
    label += bound;
  }
  if (traits && traits->keeps_means && spec.residual_group > 0) label += " in groups";
  if (spec.subtractive_dither) label += " dithered";
  if (spec.roots) label += " roots";
  if (spec.with_sign) label += " + sign";
  if (spec.zero_code) label += " zero code";
  if (spec.with_bounds) label += " + sides of bounds";
  if (spec.without_zero_rows) label += " without zeros";
  return label;
}

// The device's codec for a candidate, with its kernels loaded; null where data may not be
// representable: with a size known beforehand, the source is freed before the host could learn
// that. Floats always are (those that are not finite decode to NaN), flags only as booleans.
// @param what The candidate's, as it will be encoded
std::shared_ptr<const codecs::cuda::DeviceCodec> device_codec(
    const policy::Decision::Candidate& candidate, const codecs::Description& what,
    c10::Device device) {
  const codecs::cuda::Library* library = cuda_codecs();
  const bool may_fail = codecs::codec_traits(candidate.spec.name)->holds == codecs::Holds::flags &&
                        candidate.what.type != codecs::ElementType::boolean;
  if (library == nullptr || may_fail) return nullptr;
  const c10::OptionalDeviceGuard guard(device);
  auto codec = library->make_codec(candidate.spec);
  if (codec == nullptr || !codec->accepts(candidate.what)) return nullptr;
  // Kernels that there is no memory for now are loaded when they are first needed.
  library->load(*codec, what);
  return codec;
}

/// Whether the values have to have exact signs, or be on their sides of bounds. Values computed
/// from approximated ones may not.
bool needs_exact_sides(const policy::Decision::Candidate& candidate) {
  const codecs::CodecSpec& spec = candidate.spec;
  return spec.with_bounds ||
         (spec.with_sign && spec.signed_values == codecs::SignedValues::agreeing);
}

}  // namespace

std::shared_ptr<const Plan> PlanMaker::make(const policy::Policy& policy, const Entry& entry,
                                            int caution, const policy::Choice* choice) const {
  auto plan = std::make_shared<Plan>();
  bool node_reads_values = false;
  const SiteNames* row = nullptr;  // names for the report: of a use that reads values, if any
  DescribedEntry described(entry, derives_);
  auto seen = described.uses.begin();
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (!counts(*use, derives_)) continue;
    const SiteNames& names = names_of(*use);
    plan->reads.push_back(
        use->is_recipes ? codecs::Reads::values
                        : policy::reads_of(policy::operand_fact(seen->op, seen->operand), *seen));
    const bool reads_values = plan->reads.back() == codecs::Reads::values;
    plan->only_recipes_read_values |= reads_values && use->is_recipes;
    node_reads_values |= reads_values && !use->is_recipes;
    ++seen;
    if (row == nullptr || (plan->reads.front() != codecs::Reads::values &&
                           plan->reads.back() == codecs::Reads::values)) {
      row = &names;
    }
  }
  plan->only_recipes_read_values &= !node_reads_values;
  if (row == nullptr) row = &names_of(*entry.first_use);
  described.entry.choice = choice;
  const policy::Decision decision = policy.decide(described.entry, caution);
  plan->action = decision.action;
  plan->offload = decision.offload;
  plan->on_device = entry.device != nullptr;
  plan->least_offloaded = policy.settings().offload.min_bytes;
  plan->reason = decision.reason;
  plan->stored_bytes = decision.action == policy::Decision::Action::drop ? 0 : entry.raw_bytes;
  for (const auto& candidate : decision.candidates) {
    add_candidate(*plan, entry, candidate, *row, choice != nullptr);
  }
  if (policy.settings().derive.signs_in_sources && derives_) {
    for (const auto& candidate : decision.candidates) add_by_sides(*plan, entry, candidate, *row);
  }
  plan->kept = &statistics_.op(row->op, row->operand, "kept");
  plan->dropped = &statistics_.op(row->op, row->operand, "nothing");
  // Attention's parts are derived together. If they are too far off, their operands are.
  const bool has_pair = entry.recipe != nullptr && entry.recipe->pair != nullptr;
  const bool may_derive = entry.recipe != nullptr && (caution == 0 || has_pair) &&
                          (choice == nullptr || choice->derived) &&
                          (!entry.recipe->is_near || plan->may_be_approximated() || has_pair);
  const bool needs_sides = std::ranges::any_of(decision.candidates, needs_exact_sides);
  if (may_derive && !needs_sides && plan->encodes()) derive(*plan, entry, *row);
  return plan;
}

// Plans an entry with a recipe as derived, with a mask where signs are read. Entries that the guard
// found too far off, or that an adaptive policy chose to store, are stored (see make()).
void PlanMaker::derive(Plan& plan, const Entry& entry, const SiteNames& row) const {
  using enum codecs::Reads;
  const bool masks_serve = std::ranges::all_of(plan.reads, [](codecs::Reads reads) {
    return reads == values || reads == sign || reads == nothing;
  });
  const bool signs = std::ranges::find(plan.reads, sign) != plan.reads.end();
  if (!masks_serve || std::ranges::find(plan.reads, values) == plan.reads.end()) return;
  const std::string label = entry.recipe->label();
  plan.stored_bytes = entry.recipe->constant_bytes();
  if (signs) {
    Plan mask;
    codecs::CodecSpec sign_alone;
    sign_alone.name = "sign";
    const std::int64_t n = entry.recipe->elements;
    const auto layout = codecs::PlaneLayout::rows(n, policy::flat_row(n, 4096));
    add_candidate(mask, entry, {sign_alone, {element_type(entry.recipe->type), layout, {1, 1, 1}}},
                  row, false);
    if (mask.candidates.empty()) return;
    plan.mask = std::move(mask.candidates.front());
    plan.stored_bytes += plan.mask->bound;
  }
  plan.derived = &statistics_.op(row.op, row.operand, label);
  if (plan.mask) plan.mask->totals = plan.derived;
}

// Adds the candidate for entries that a ReLU's recipe gave sides, if values are held in groups.
void PlanMaker::add_by_sides(Plan& plan, const Entry& entry,
                             const policy::Decision::Candidate& candidate,
                             const SiteNames& row) const {
  bool is_source = false;
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    is_source = is_source || use->is_recipes;
  }
  // Backward would get the ReLU's signs for the entry's own.
  if (std::ranges::find(plan.reads, codecs::Reads::sign) != plan.reads.end()) return;
  const codecs::CodecSpec& spec = candidate.spec;
  const bool fits = codecs::codec_traits(spec.name)->shares_ranges && candidate.mixed_bits == 0 &&
                    !spec.with_sign && !spec.with_bounds && !spec.without_zero_rows &&
                    spec.bits > 1;
  if (entry.device != nullptr || !is_source || !fits) return;
  policy::Decision::Candidate by_sides = candidate;
  by_sides.spec.name = "two_sided";
  const std::size_t before = plan.candidates.size();
  add_candidate(plan, entry, by_sides, row, false);
  if (plan.candidates.size() > before) plan.candidates.back().by_sides = true;
}

void PlanMaker::add_candidate(Plan& plan, const Entry& entry,
                              const policy::Decision::Candidate& candidate, const SiteNames& row,
                              bool chosen) const {
  auto codec = codecs::make_codec(candidate.spec);
  if (codec == nullptr || !codec->accepts(candidate.what)) return;
  codecs::Description what = candidate.what;
  if (candidate.channel_bounds) what.channel_bound = candidate.channel_bounds->data();
  const EqualPlanes equal(what, candidate.mixed_bits);
  const std::size_t bound = codec->encoded_bytes(equal.what);
  const auto traits = codecs::codec_traits(candidate.spec.name);
  const bool sized_by_data = traits->sized_by_data;
  std::shared_ptr<const codecs::cuda::DeviceCodec> on_device;
  if (entry.device != nullptr) {
    on_device = device_codec(candidate, equal.what, entry.device->saved_on.device());
    // The host learns how a device's codec did when it is too late to choose another.
    const bool is_copy = traits->holds == codecs::Holds::anything;
    const bool never_smaller = bound >= entry.raw_bytes && !is_copy;
    if (on_device == nullptr || (never_smaller && !sized_by_data)) return;
    // So a codec that serves few data gives way to one that serves most.
    const bool gives_way =
        !plan.candidates.empty() && plan.candidates.front().holds == codecs::Holds::flags;
    if (gives_way) plan.candidates.clear();
  }
  if (plan.candidates.empty()) {
    plan.stored_bytes = std::min(bound, entry.raw_bytes);
    if (on_device != nullptr) plan.device_bytes = bytes_to_encode(*on_device, what, bound);
  }
  plan.candidates.push_back(
      {std::move(codec), std::move(on_device), what, bound,
       traits->fidelity != codecs::Fidelity::exact, sized_by_data, traits->holds,
       &statistics_.op(row.op, row.operand,
                       codec_label(candidate.spec, candidate.mixed_bits, chosen)),
       candidate.mixed_bits, traits->shares_ranges ? candidate.spec.group : 0,
       chosen && director_->tries_choices(), candidate.channel_bounds});
}

}  // namespace cinch::hooks
