// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/plan.h"

#include "hooks/torch/candidate.h"
#include "policy/operand.h"

namespace cinch::hooks {
namespace {

// A program whose shapes never repeat must not fill memory with plans.
constexpr std::size_t most_plans = 4096;

const SiteNames& names_of(const Use& use) {
  static const SiteNames unknown;
  const SiteNames* names = use.site->names();
  return names == nullptr ? unknown : *names;
}

policy::Geometry view_of(const Geometry& geometry) {
  return {{geometry.sizes.data(), geometry.sizes.size()},
          {geometry.strides.data(), geometry.strides.size()},
          geometry.offset};
}

void append(std::vector<std::int64_t>& key, const Geometry& geometry) {
  key.push_back(static_cast<std::int64_t>(geometry.sizes.size()));
  key.insert(key.end(), geometry.sizes.begin(), geometry.sizes.end());
  key.insert(key.end(), geometry.strides.begin(), geometry.strides.end());
  key.push_back(geometry.offset);
}

std::string codec_label(const codecs::CodecSpec& spec) {
  std::string label = spec.name;
  const auto traits = codecs::codec_traits(spec.name);
  if (traits && traits->precision == codecs::Precision::bits) {
    label += " " + std::to_string(spec.bits) + "-bit";
  }
  if (traits && traits->precision == codecs::Precision::error_bound) {
    char bound[32];
    std::snprintf(bound, sizeof bound, " %.3g", double{spec.error_bound});
    label += bound;
  }
  if (spec.with_sign) label += " + sign";
  return label;
}

}  // namespace

std::size_t Planner::KeyHash::operator()(const std::vector<std::int64_t>& key) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over words
  for (const std::int64_t word : key) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

std::shared_ptr<const Plan> Planner::plan_for(const Entry& entry) {
  key_.clear();
  key_.push_back(static_cast<std::int64_t>(entry.raw_bytes));
  append(key_, entry.cover);
  for (const Use* use : entry.uses) {
    key_.push_back(reinterpret_cast<std::intptr_t>(use->site->names()));
    key_.push_back(static_cast<std::int64_t>(use->type) * 2 + (use->is_output ? 1 : 0));
    key_.insert(key_.end(), use->index_extent.begin(), use->index_extent.end());
    append(key_, use->geometry);
  }
  const auto known = plans_.find(key_);
  if (known != plans_.end()) return known->second;
  if (plans_.size() >= most_plans) plans_.clear();
  return plans_.emplace(key_, make(entry)).first->second;
}

std::shared_ptr<const Plan> Planner::make(const Entry& entry) {
  auto plan = std::make_shared<Plan>();
  std::vector<policy::Use> uses;
  const SiteNames* row = nullptr;  // who the report counts this entry under: who reads its values
  for (const Use* use : entry.uses) {
    const SiteNames& names = names_of(*use);
    uses.push_back({names.op, names.operand, use->is_output, element_type(use->type),
                    view_of(use->geometry), use->index_extent});
    plan->reads.push_back(policy::operand_fact(names.op, names.operand).reads);
    if (row == nullptr || (plan->reads.front() != codecs::Reads::values &&
                           plan->reads.back() == codecs::Reads::values)) {
      row = &names;
    }
  }
  const policy::Decision decision = policy_.decide({entry.raw_bytes, uses, view_of(entry.cover)});
  plan->action = decision.action;
  plan->reason = decision.reason;
  for (const auto& candidate : decision.candidates) {
    auto codec = codecs::make_codec(candidate.spec);
    if (codec == nullptr || !codec->accepts(candidate.what)) continue;
    const std::size_t bound = codec->encoded_bytes(candidate.what);
    plan->candidates.push_back(
        {std::move(codec), candidate.what, bound,
         &statistics_.op(row->op, row->operand, codec_label(candidate.spec))});
  }
  plan->kept = &statistics_.op(row->op, row->operand, "kept");
  plan->dropped = &statistics_.op(row->op, row->operand, "nothing");
  return plan;
}

}  // namespace cinch::hooks
