// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/held/comparison.h"

#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "hooks/torch/autograd/held/tensor_over.h"
#include "hooks/torch/program/below_program.h"
#include "hooks/torch/stash/stash.h"

namespace cinch::hooks {
namespace {

// Codes of an order; 0 is less.
constexpr int equal = 1;
constexpr int more = 2;
constexpr int neither = 3;

at::Tensor compare(const at::Tensor& a, const at::Tensor& b, Comparison::Of of, bool a_is_left) {
  const BelowProgram guard;
  at::Tensor equals = a_is_left ? a == b : b == a;
  if (of == Comparison::Of::equality) return equals;
  if (of == Comparison::Of::sameness) return equals.logical_or_((a != a).logical_and(b != b));
  at::Tensor codes = equals.to(at::kByte);
  codes.add_(a > b, more);
  return codes.add_((a != a).logical_or(b != b), neither);
}

}  // namespace

Comparison::Comparison(const at::Tensor& a, const at::Tensor& b, Of of, bool a_is_left,
                       const Use& like) {
  const at::Tensor codes = compare(a, b, of, a_is_left);
  use_.site = like.site;
  use_.sequence = like.sequence;
  use_.is_stand_in = true;
  use_.type = codes.scalar_type();
  use_.geometry = Geometry(codes);
  entry_ = &stash().save(codes, use_);
}

Comparison::~Comparison() {
  stash().release(*entry_, use_);
}

at::Tensor Comparison::values(c10::ScalarType type, const at::Tensor& b) const {
  c10::Storage storage = stash().restore(*entry_, use_);
  const BelowProgram guard;
  const bool is_known = storage.data() != nullptr;  // not to a probe that only asks what is read
  const at::Tensor codes =
      tensor_over(std::move(storage), device_type(*entry_), use_.type, use_.geometry);
  if (!is_known) return at::zeros({}, codes.options().dtype(type)).expand(codes.sizes());
  if (use_.type == at::kBool) return codes.to(type);
  using Limits = std::numeric_limits<double>;
  at::Tensor values = codes.to(type).sub_(equal).mul_(Limits::infinity());  // 0 times that is NaN
  values.masked_fill_(codes == neither, Limits::quiet_NaN());
  return at::where(codes == equal, b.to(type), values);
}

}  // namespace cinch::hooks
