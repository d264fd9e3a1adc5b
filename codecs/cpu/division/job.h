// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/division.h"

namespace cinch::codecs::cpu {

/// What every task of one encode or decode shares.
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

/// What bounds the residuals of a plane or of a part of it.
struct DivisionBounds {
  float min;
  float max;
  bool good;  ///< no NaN, infinity or magnitude above kAffineMaxMagnitude
};

/// Where what is known of some planes goes.
struct DivisionStatistics {
  float* min;        ///< of each plane's residuals
  float* max;        ///< less than `min` where the plane can't be held
  std::byte* means;  ///< of its blocks, bfloat16; 0 where it can't be held
  float* rows;       ///< the same as floats, spread over columns
};

/// How a task ended.
enum class DivisionOutcome { done, not_representable, out_of_memory };

}  // namespace cinch::codecs::cpu
