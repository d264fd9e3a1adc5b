// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/processor.h"

#include <atomic>

#include "hwy/targets.h"

namespace cinch::codecs {
namespace {

enum class Known { no, unsupported, supported };
std::atomic<Known> known{Known::no};

}  // namespace

bool cpu::processor_has_target() noexcept {
  Known found = known.load(std::memory_order_relaxed);
  if (found == Known::no) {
    found = (hwy::SupportedTargets() & HWY_TARGETS) != 0 ? Known::supported : Known::unsupported;
    known.store(found, std::memory_order_relaxed);
  }
  return found == Known::supported;
}

void cpu::forget_processor() noexcept {
  known.store(Known::no, std::memory_order_relaxed);
}

}  // namespace cinch::codecs
