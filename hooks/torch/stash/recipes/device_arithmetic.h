// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "hooks/torch/stash/recipes/arithmetic.h"

namespace cinch::hooks {

/// PyTorch's operators on a CUDA device. They are enqueued on the calling thread's current stream,
/// and the host does not wait. All are deterministic, and none draws random numbers.
///
/// Norms are computed as PyTorch's CUDA kernels do (aten/src/ATen/native/cuda/Normalization.cuh),
/// with the same roundings. Kernels of Cinch's own: batch norm with a sum and a ReLU behind it,
/// layer norm, functions without their bias. PyTorch's batch_norm_elemt gives the fused
/// multiply-adds that group norm ends with.
///
/// @pre the device is the current one
class DeviceArithmetic final : public Arithmetic {
 public:
  explicit DeviceArithmetic(c10::Device device) : device_(device) {}

  c10::DataPtr allocate(std::size_t bytes) const override;
  at::Tensor blob(const void* data, const Layout& layout, c10::ScalarType type) const override;
  bool takes(const Recipe::Step& step, c10::ScalarType from, c10::ScalarType to) const override;
  void apply_in_floats(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                       at::Tensor& out) const override;
  bool apply_together(const ChannelNorm& steps, const at::Tensor& in,
                      at::Tensor& out) const override;
  bool run(const codecs::cuda::Program& program, at::Tensor& out) const override;
  bool apply_without_bias(const Recipe::Step& step, const at::Tensor& in,
                          const SourceErrors& errors, std::int64_t first,
                          at::Tensor& out) const override;

 private:
  // The host waits, and PyTorch computes, where a kernel of Cinch's own can't be launched.
  void keep_where_set(const std::byte* mask, const at::Tensor& in, at::Tensor& out) const;
  void row_norm(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                at::Tensor& out) const;
  void batch_norm(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                  at::Tensor& out) const;
  void group_norm(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                  at::Tensor& out) const;
  void max_pool(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                at::Tensor& out) const;

  const c10::Device device_;
};

}  // namespace cinch::hooks
