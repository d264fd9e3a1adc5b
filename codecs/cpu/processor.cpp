// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/processor.h"

#include "hwy/targets.h"

namespace cinch::codecs {

bool cpu::processor_has_target() noexcept {
  return (hwy::SupportedTargets() & HWY_TARGETS) != 0;
}

}  // namespace cinch::codecs
