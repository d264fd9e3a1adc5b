// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/formats/division/division.h"

namespace cinch::codecs::cpu {

/// Facts that all tasks of one encode or decode share.
struct DivisionJob {
  const Description& what;
  const DivisionParameters& parameters;
  DivisionGeometry geometry;
  DivisionSections sections;
  RandomKey key;  ///< encode only

  DivisionJob(const Description& description, const DivisionParameters& division_parameters,
              RandomKey random_key) noexcept
      : what(description),
        parameters(division_parameters),
        geometry(division_parameters, description.layout.extent),
        sections(division_parameters, geometry, description.layout),
        key(random_key) {}
};

/// Bounds of the residuals of a plane or of a part of it.
struct DivisionBounds {
  float min;
  float max;
  bool good;  ///< no NaN, infinity or magnitude above kAffineMaxMagnitude
};

/// Destinations of the survey's results for some planes.
struct DivisionStatistics {
  float* min;        ///< least residual of each plane
  float* max;        ///< largest; less than `min` where the plane can't be held
  std::byte* means;  ///< of the planes' blocks, bfloat16; 0 where a plane can't be held
  float* rows;       ///< the means as floats, spread over columns
};

/// How a task ended.
enum class DivisionOutcome { done, not_representable, out_of_memory };

}  // namespace cinch::codecs::cpu
