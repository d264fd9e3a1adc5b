// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/entry_name.h"

#include <c10/core/ScalarType.h>

#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {
namespace {

std::string shape_of(const Geometry& geometry) {
  std::string text;
  for (const std::int64_t size : geometry.sizes()) {
    text += (text.empty() ? "" : "x") + std::to_string(size);
  }
  return text.empty() ? "scalar" : text;
}

/// The use that names the entry: the first that reads values, else the first.
const Use& telling_use(const Entry& entry) {
  for (const Use* use = entry.first_use; use != nullptr; use = use->next) {
    if (use->reads == codecs::Reads::values) return *use;
  }
  return *entry.first_use;
}

}  // namespace

EntryName name_of(const Entry& entry) {
  const Use& use = telling_use(entry);
  const OpTotals& names = *entry.plan().kept;
  const std::string type(c10::getDtypeNames(use.type).first);  // a view since torch 2.14
  EntryName name = {.op = names.op,
                    .operand = names.operand,
                    .type = type,
                    .element_bytes = c10::elementSize(use.type),
                    .shape = shape_of(use.geometry),
                    .place = entry.member + 1U,
                    .savers = {}};
  for (const Use* each = entry.first_use; each != nullptr; each = each->next) {
    const SiteNames* saver = each->site->names();
    if (saver != nullptr) name.savers += '\n' + saver->op + '\n' + saver->operand;
  }
  return name;
}

}  // namespace cinch::hooks
