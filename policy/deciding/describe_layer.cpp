// SPDX-License-Identifier: Apache-2.0
#include "policy/deciding/describe_layer.h"

#include <optional>
#include <utility>

#include "policy/deciding/need.h"

namespace cinch::policy {
namespace {

Choice with_codec(std::string_view name) {
  Choice choice;
  choice.action = Choice::Action::encode;
  choice.spec.name = name;
  choice.spec.error_bound = 1;
  return choice;
}

/// The candidate by which the policy carries out `choice` for the entry; nothing when it holds the
/// entry by another codec or none.
std::optional<Decision::Candidate> candidate(const Policy& policy, EntryDescription entry,
                                             const Choice& choice) {
  entry.choice = &choice;
  Decision decision = policy.decide(entry);
  if (decision.action != Decision::Action::encode || decision.candidates.empty()) return {};
  if (decision.candidates.front().spec.name != choice.spec.name) return {};
  return std::move(decision.candidates.front());
}

}  // namespace

std::optional<Layer> describe_layer(const Policy& policy, const Director& director,
                                    const EntryDescription& entry) {
  if (director.is_full()) return std::nullopt;
  const Choice groups = with_codec("group_quant");
  Layer layer;
  std::optional<std::pair<LayerKind, int>> most_sensitive;
  for (const Use& use : entry.uses) {
    const Need need = need_of(policy.settings(), use, operand_fact(use.op, use.operand), &groups);
    if (!need.chosen) continue;
    const auto advice = need.advice ? std::optional(*need.advice) : std::nullopt;
    const bool disagrees = most_sensitive && advice != layer.advice;
    layer.advice = disagrees ? std::nullopt : advice;
    const LayerKind kind = layer_kind(use.op);
    // Kinds are ordered from the least to the most sensitive.
    const std::pair sensitivity(kind, least_measured_bits(kind, use.operand));
    if (most_sensitive && sensitivity <= *most_sensitive) continue;
    most_sensitive = sensitivity;
    layer.kind = kind;
    layer.op = use.op;
    layer.operand = use.operand;
  }
  const auto by_group = most_sensitive ? candidate(policy, entry, groups) : std::nullopt;
  if (!by_group) return std::nullopt;
  layer.raw_bytes = entry.storage_bytes;
  layer.on_device = entry.on_device;
  layer.derivable = entry.derivable;
  layer.is_source = entry.is_source;
  layer.elements = by_group->what.layout.elements();
  layer.planes = by_group->what.layout.planes();
  if (const auto by_channel = candidate(policy, entry, with_codec("fixed_point"))) {
    layer.channels = by_channel->what.layout.channels();
  }
  for (const Choice& choice : director.menu(layer)) {
    std::size_t bytes = entry.storage_bytes;
    if (choice.action == Choice::Action::encode) {
      const auto held = candidate(policy, entry, choice);
      const auto codec = held ? codecs::make_codec(held->spec) : nullptr;
      if (codec == nullptr || !codec->accepts(held->what)) continue;
      bytes = codec->encoded_bytes(held->what);
    }
    layer.menu.push_back(choice);
    layer.menu_bytes.push_back(bytes);
  }
  return layer;
}

}  // namespace cinch::policy
