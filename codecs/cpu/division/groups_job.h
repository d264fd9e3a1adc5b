// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cpu/division/job.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/formats/division/division_groups.h"

namespace cinch::codecs::cpu {

/// Facts that all tasks of one encode or decode share.
struct DivisionGroupsJob {
  ElementType type;
  DivisionGeometry geometry;
  DivisionGroupsSections sections;
  GroupQuantJob groups;  ///< of the section of the residuals

  /// @param residuals division_residuals of what `type` is the type of; must outlive this
  /// @param key as in GroupQuantJob
  DivisionGroupsJob(ElementType element_type, const Description& residuals,
                    const DivisionGroupsParameters& parameters, RandomKey key) noexcept
      : type(element_type),
        geometry(parameters.means, residuals.layout.extent),
        sections(parameters, residuals.layout),
        groups(residuals, parameters.residuals, {}, key, workspace().sums_of_planes) {}

  std::int64_t plane_size() const noexcept { return groups.what.layout.plane_size(); }
};

}  // namespace cinch::codecs::cpu
