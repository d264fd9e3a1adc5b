// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/arithmetic.h"

namespace cinch::hooks {

at::Tensor Arithmetic::slice_of(const at::Tensor& tensor, std::int64_t dim, std::int64_t first,
                                std::int64_t count) const {
  const View part = slice(layout_of(tensor), dim, first, 1, count).value();
  const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
  return blob(data + static_cast<std::size_t>(part.offset) * tensor.element_size(), part.layout,
              tensor.scalar_type());
}

void Arithmetic::roll(const Recipe::Step& step, std::size_t dim, const at::Tensor& in,
                      at::Tensor& out) const {
  if (dim == step.shifts.size()) {
    copy(in, out);
    return;
  }
  const auto along = static_cast<std::int64_t>(dim);
  const std::int64_t size = in.size(along);
  const std::int64_t shift = step.shifts[dim];
  for (const auto& [from, to, count] : {std::array{std::int64_t{0}, shift, size - shift},
                                        std::array{size - shift, std::int64_t{0}, shift}}) {
    if (count == 0) continue;
    at::Tensor target = slice_of(out, along, to, count);
    roll(step, dim + 1, slice_of(in, along, from, count), target);
  }
}

}  // namespace cinch::hooks
