// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/plan.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <utility>

#include <c10/core/DeviceGuard.h>

#include "hooks/torch/program/compiled_region.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/recipe.h"
#include "hooks/torch/stash/verdict.h"
#include "policy/describe_layer.h"
#include "policy/layout.h"
#include "policy/operand.h"
#include "policy/plane_ranges.h"

namespace cinch::hooks {
namespace {

// Bounds the members of a class.
constexpr std::uint32_t most_places = 1024;

// The most that an allocator may add to a block's size.
constexpr std::size_t alignment = 4096;

const SiteNames& names_of(const Use& use) {
  static const SiteNames unknown;
  const SiteNames* names = use.site->names();
  return names == nullptr ? unknown : *names;
}

// The names that policies are told. None if the program itself reads what this site saves, which
// takes values.
const SiteNames& known_names_of(const Use& use) {
  static const SiteNames unknown;
  return use.site->shown() && !use.site->python() ? unknown : names_of(use);
}

policy::Origin origin_of(const Use& use) {
  if (!use.site->python()) return policy::Origin::op;
  const bool compiled = is_compiled_region(names_of(use).op.c_str());
  return compiled ? policy::Origin::compiled : policy::Origin::function;
}

std::array<std::int64_t, 3> index_extent(const Use& use) {
  const auto* extent = std::get_if<Extent>(&use.operator_says);
  if (extent == nullptr) return {0, 0, 0};
  return {(*extent)[0], (*extent)[1], (*extent)[2]};
}

codecs::IntervalBounds bounds(const Use& use) {
  const auto* bounds = std::get_if<codecs::IntervalBounds>(&use.operator_says);
  return bounds == nullptr ? codecs::IntervalBounds{0, 0} : *bounds;
}

float exponent(const Use& use) {
  const auto* exponent = std::get_if<Exponent>(&use.operator_says);
  return exponent == nullptr ? 0 : exponent->value;
}

bool reduces_linearly(const Use& use) {
  const auto* reduction = std::get_if<Reduction>(&use.operator_says);
  return reduction != nullptr && reduction->is_linear;
}

/// Geometries as policies see them, for as long as this lives.
class Views {
 public:
  policy::Geometry of(const Geometry& geometry) {
    const auto sizes = geometry.sizes();
    const c10::DimVector& strides = strides_.emplace_back(geometry.strides());
    return {{sizes.data(), sizes.size()}, {strides.data(), strides.size()}, geometry.offset()};
  }

 private:
  std::deque<c10::DimVector> strides_;
};

/// An entry as policies see it, for as long as this lives.
struct Described {
  /// @param derives Whether uses that recipes made count
  Described(const Entry& of, bool derives) {
    for (const Use* use = of.first_use; use != nullptr; use = use->next) {
      if (use->is_recipes && !derives) continue;
      const SiteNames& names = known_names_of(*use);
      uses.push_back({names.op, names.operand, use->is_output, element_type(use->type),
                      views.of(use->geometry), index_extent(*use), origin_of(*use), bounds(*use),
                      exponent(*use), reduces_linearly(*use), c10::isComplexType(use->type),
                      names.reads});
    }
    const Geometry* cover = of.cover.get();
    entry = {of.raw_bytes, uses, cover == nullptr ? policy::Geometry{} : views.of(*cover), nullptr,
             of.device != nullptr};
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;

  Views views;
  std::vector<policy::Use> uses;
  policy::EntryDescription entry;
};

/// Whether all uses read values or nothing: decoded approximations serve these, but not sign reads.
bool reads_values_only(const Entry& entry) {
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->reads != codecs::Reads::values && use->reads != codecs::Reads::nothing) return false;
  }
  return true;
}

/// An upper bound of the encoded size; exact for mixed bits.
std::size_t encoded_bytes(const codecs::Codec& codec, codecs::Description what, double mixed_bits) {
  if (!(mixed_bits > 0)) return codec.encoded_bytes(what);
  const auto planes = static_cast<std::size_t>(what.layout.planes());
  const std::vector<float> equal(planes, 1.0F);
  const auto bits = policy::plane_bits(equal, mixed_bits);
  what.plane_bits = bits;
  return codec.encoded_bytes(what);
}

void append(std::vector<std::int64_t>& key, const Geometry* geometry) {
  const auto words = geometry == nullptr ? c10::IntArrayRef() : geometry->words();
  key.push_back(static_cast<std::int64_t>(words.size()));
  key.push_back(geometry == nullptr ? -1 : static_cast<std::int64_t>(geometry->rank()));
  key.insert(key.end(), words.begin(), words.end());
  key.push_back(geometry == nullptr ? 0 : geometry->offset());
}

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
  if (spec.subtractive_dither) label += " dithered";
  if (spec.with_sign) label += " + sign";
  return label;
}

// The device's codec for a candidate; null where data may not be representable: with a size known
// beforehand, the source is freed before the host could learn that. Floats always are (those that
// are not finite decode to NaN), flags only as booleans.
std::shared_ptr<const codecs::cuda::DeviceCodec> device_codec(
    const policy::Decision::Candidate& candidate, c10::Device device) {
  const codecs::cuda::Library* library = cuda_codecs();
  const bool may_fail = codecs::codec_traits(candidate.spec.name)->holds == codecs::Holds::flags &&
                        candidate.what.type != codecs::ElementType::boolean;
  if (library == nullptr || may_fail) return nullptr;
  const c10::OptionalDeviceGuard guard(device);
  auto codec = library->make_codec(candidate.spec);
  return codec != nullptr && codec->accepts(candidate.what) ? codec : nullptr;
}

/// Whether the values have to have exact signs. Values computed from approximated ones may not.
bool needs_exact_signs(const policy::Decision::Candidate& candidate) {
  return candidate.spec.with_sign && candidate.spec.signed_values == codecs::SignedValues::agreeing;
}

/// Gives the member a sized plan, unless the measured `bytes` are close to what `plan` expected.
void note(EntryClass::Member& member, const std::shared_ptr<const Plan>& plan, std::size_t bytes) {
  constexpr std::size_t small = 16;  // a difference of 1/16 is not worth a new plan
  const std::size_t expected = plan->stored_bytes;
  const std::size_t off = std::max(expected, bytes) - std::min(expected, bytes);
  if (off <= expected / small) return;
  if (plan != member.sized) member.unsized = plan;
  auto sized = std::make_shared<Plan>(*plan);
  sized->stored_bytes = bytes;
  sized->sized = true;
  member.sized = std::move(sized);
}

}  // namespace

bool Plan::keeps_values() const {
  if (action == policy::Decision::Action::drop) return false;
  return std::ranges::all_of(candidates, [](const Candidate& candidate) {
    return candidate.codec->restores() == codecs::Reads::values;
  });
}

bool Plan::approximates() const {
  return std::ranges::any_of(candidates, &Candidate::approximates);
}

std::size_t Planner::KeyHash::operator()(const std::vector<std::int64_t>& key) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over words
  for (const std::int64_t word : key) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

void Planner::plan(Entry& entry, std::uint64_t growth) {
  key_.clear();
  key_.push_back(static_cast<std::int64_t>(entry.raw_bytes));
  key_.push_back(entry.device == nullptr ? -1 : entry.raw.device().index());
  append(key_, entry.cover.get());
  if (entry.recipe != nullptr) {
    const auto recipe = entry.recipe->key();
    key_.insert(key_.end(), recipe.begin(), recipe.end());
  }
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->is_recipes && !derives_) continue;
    key_.push_back(reinterpret_cast<std::intptr_t>(&known_names_of(*use)));
    key_.push_back(reinterpret_cast<std::intptr_t>(use->site->names()));
    key_.push_back(static_cast<std::int64_t>(use->type) * 8 + (use->is_output ? 1 : 0) +
                   (use->is_recipes ? 2 : 0) + (reduces_linearly(*use) ? 4 : 0));
    const auto extent = index_extent(*use);
    key_.insert(key_.end(), extent.begin(), extent.end());
    key_.push_back(std::bit_cast<std::int64_t>(bounds(*use)));
    key_.push_back(std::bit_cast<std::int32_t>(exponent(*use)));
    append(key_, &use->geometry);
  }
  auto known = classes_.find(key_);
  if (known == classes_.end()) {
    if (classes_.size() >= most_classes) forget_the_oldest();
    known = classes_.emplace(key_, std::make_shared<EntryClass>()).first;
  }
  EntryClass& of_kind = *known->second;
  if (of_kind.growth != growth) {
    of_kind.growth = growth;
    of_kind.seen = 0;
  }
  const std::uint32_t place = std::min(of_kind.seen++, most_places);
  if (place >= of_kind.members.size()) of_kind.members.resize(place + 1);
  entry.entry_class = known->second;
  entry.member = place;
  try {
    plan_as_member(entry, of_kind);
  } catch (...) {
    entry.entry_class.reset();
    entry.own_plan.reset();
    throw;
  }
}

// Forgets the classes that were planned longest ago, at least half of them. Those that a program
// has in each step keep what the guard and an adaptive policy know of them.
void Planner::forget_the_oldest() {
  std::vector<std::uint64_t> growths;
  for (const auto& [key, of_kind] : classes_) growths.push_back(of_kind->growth);
  const auto middle = growths.begin() + static_cast<std::ptrdiff_t>(growths.size() / 2);
  std::ranges::nth_element(growths, middle);
  std::erase_if(classes_, [&](const auto& each) { return each.second->growth <= *middle; });
}

void Planner::plan_as_member(Entry& entry, EntryClass& of_kind) {
  const std::uint32_t place = entry.member;
  entry.caution = of_kind.members[place].caution;
  take_awaited(of_kind.members[place]);
  entry.own_plan = chosen_plan(entry, of_kind.members[place]);
  const EntryClass::Member& member = of_kind.members[place];
  if (member.sized != nullptr && member.unsized == entry.own_plan) entry.own_plan = member.sized;
  if (harder_ != nullptr && entry.device != nullptr) {
    auto& harder = of_kind.harder_plans[entry.caution];
    if (harder == nullptr) harder = make(*harder_, entry, entry.caution, nullptr);
  }
  Use* use = entry.first_use;
  for (const codecs::Reads reads : entry.own_plan->reads) {
    use->reads = reads;
    use = use->next;
  }
  EntryRow*& row = of_kind.members[place].row;
  if (row == nullptr) row = &statistics_.entries().row(entry);
  entry.row = row;
}

void Planner::note_size(const Entry& entry, std::size_t bytes) {
  EntryClass::Member& member = entry.entry_class->members[entry.member];
  if (entry.candidate == 0) tell_size(member, entry.own_plan, bytes);
  note(member, entry.own_plan, bytes);
}

void Planner::note_size(const Entry& entry, std::shared_ptr<const EncodeOutcome> outcome) {
  entry.entry_class->members[entry.member].awaited = {std::move(outcome), entry.own_plan,
                                                      entry.raw_bytes, entry.candidate == 0};
}

void Planner::take_awaited(EntryClass::Member& member) {
  if (!member.awaited) return;
  const EncodeOutcome& outcome = *member.awaited->outcome;
  if (!outcome.happened()) {
    if (!goes_by_sizes_) return;
    statistics_.waited_for_size();
    outcome.wait();
  }
  if (const auto bytes = outcome.bytes(member.awaited->raw_bytes)) {
    if (member.awaited->is_choice) tell_size(member, member.awaited->plan, *bytes);
    note(member, member.awaited->plan, *bytes);
  }
  member.awaited.reset();
}

void Planner::tell_size(const EntryClass::Member& member, const std::shared_ptr<const Plan>& plan,
                        std::size_t bytes) {
  if (member.layer == policy::no_layer) return;
  const bool is_latest =
      plan == member.plan || (plan == member.sized && member.unsized == member.plan);
  if (!is_latest || member.version != director_->version(member.layer)) return;
  director_->note_size(member.layer, bytes);
}

std::shared_ptr<const Plan> Planner::harder_plan(const Entry& entry) {
  const auto& harder = entry.entry_class->harder_plans[entry.caution];
  if (harder == nullptr || !harder->encodes()) return nullptr;
  // A quarter less, or it is not worth a second loss.
  const std::size_t now = entry.stored_bytes();
  if (harder->candidates.front().bound > now - now / 4) return nullptr;
  if (entry.is_raw()) return harder;
  // Encoding anew can't be undone if the data turn out not to be representable.
  return !harder->candidates.front().sized_by_data && reads_values_only(entry) ? harder : nullptr;
}

std::size_t Planner::harder_bytes(const Entry& entry) {
  const auto& harder = entry.entry_class->harder_plans[entry.caution];
  const bool serves = harder != nullptr && harder->encodes() &&
                      harder->candidates.front().bound < entry.plan().stored_bytes;
  if (!serves) return 0;
  // An encoded entry has to be decoded first.
  const bool anew = entry.plan().encodes() && reads_values_only(entry);
  return harder->device_bytes + (anew ? entry.raw_bytes + alignment : 0);
}

const std::shared_ptr<const Plan>& Planner::chosen_plan(const Entry& entry,
                                                        EntryClass::Member& member) {
  if (director_ != nullptr && !member.described) {
    const Described described(entry, derives_);
    if (auto layer = policy::describe_layer(policy_, *director_, described.entry)) {
      member.layer = director_->add(std::move(*layer));
    }
    member.described = true;
  }
  if (member.layer == policy::no_layer) {
    auto& plan = entry.entry_class->plans[entry.caution];
    if (plan == nullptr) plan = make(policy_, entry, entry.caution, nullptr);
    return plan;
  }
  const std::uint32_t version = director_->version(member.layer);
  if (member.plan == nullptr || member.version != version || member.plan_caution != entry.caution) {
    member.plan = make(policy_, entry, entry.caution, &director_->choice(member.layer));
    member.version = version;
    member.plan_caution = entry.caution;
  }
  return member.plan;
}

std::shared_ptr<const Plan> Planner::make(const policy::Policy& policy, const Entry& entry,
                                          int caution, const policy::Choice* choice) {
  auto plan = std::make_shared<Plan>();
  const SiteNames* row = nullptr;  // names for the report: of a use that reads values, if any
  Described described(entry, derives_);
  auto seen = described.uses.begin();
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->is_recipes && !derives_) {
      plan->reads.push_back(codecs::Reads::nothing);
      continue;
    }
    const SiteNames& names = names_of(*use);
    plan->reads.push_back(
        use->is_recipes ? codecs::Reads::values
                        : policy::reads_of(policy::operand_fact(seen->op, seen->operand), *seen));
    ++seen;
    if (row == nullptr || (plan->reads.front() != codecs::Reads::values &&
                           plan->reads.back() == codecs::Reads::values)) {
      row = &names;
    }
  }
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
  plan->kept = &statistics_.op(row->op, row->operand, "kept");
  plan->dropped = &statistics_.op(row->op, row->operand, "nothing");
  const bool may_derive = entry.recipe != nullptr && choice == nullptr && caution == 0;
  const bool needs_signs = std::ranges::any_of(decision.candidates, needs_exact_signs);
  if (may_derive && !needs_signs && plan->encodes()) derive(*plan, entry, *row);
  return plan;
}

// Plans an entry with a recipe as derived, with a mask where signs are read. Entries that the guard
// found too far off, or whose bits an adaptive policy chooses, are stored instead (see make()).
void Planner::derive(Plan& plan, const Entry& entry, const SiteNames& row) {
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

void Planner::add_candidate(Plan& plan, const Entry& entry,
                            const policy::Decision::Candidate& candidate, const SiteNames& row,
                            bool chosen) {
  auto codec = codecs::make_codec(candidate.spec);
  if (codec == nullptr || !codec->accepts(candidate.what)) return;
  codecs::Description what = candidate.what;
  if (candidate.channel_bounds) what.channel_bound = candidate.channel_bounds->data();
  const std::size_t bound = encoded_bytes(*codec, what, candidate.mixed_bits);
  const auto traits = codecs::codec_traits(candidate.spec.name);
  const bool sized_by_data = traits->sized_by_data;
  std::shared_ptr<const codecs::cuda::DeviceCodec> on_device;
  if (entry.device != nullptr) {
    on_device = device_codec(candidate, entry.device->saved_on.device());
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
