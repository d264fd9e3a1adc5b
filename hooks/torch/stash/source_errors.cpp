// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/source_errors.h"

#include <cstddef>

#include <ATen/ops/from_blob.h>

#include "codecs/affine.h"
#include "hooks/torch/stash/below_program.h"
#include "hooks/torch/stash/device/on_device.h"
#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/entry_work.h"
#include "hooks/torch/stash/plan.h"

namespace cinch::hooks {

SourceErrors SourceErrors::of(const Entry& entry, const void* encoded) {
  if (entry.state != Entry::State::encoded || encoded == nullptr) return {};
  const Plan::Candidate& by = held_by(entry);
  const auto errors = by.codec->even_errors(described(by, entry));
  if (!errors) return {};
  const BelowProgram guard;
  const c10::Device device =
      entry.device == nullptr ? c10::Device(c10::kCPU) : entry.device->saved_on.device();
  static_assert(sizeof(codecs::AffineRange) == 2 * sizeof(c10::BFloat16));
  auto* const ranges =
      const_cast<std::byte*>(static_cast<const std::byte*>(encoded) + errors->ranges);
  const at::Tensor all = at::for_blob(ranges, {errors->groups, 2})
                             .target_device(device)
                             .options(at::TensorOptions().dtype(at::kBFloat16).device(device))
                             .make_tensor();
  return {all.select(1, 1).to(at::kFloat), errors->group, errors->plane};
}

}  // namespace cinch::hooks
