// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "codecs/arithmetic/curvature.h"
#include "codecs/cuda/pointwise/program.h"
#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/layout.h"

namespace cinch::hooks {

/// The steps of recipes in one kind of memory: the host's (host_arithmetic.h) or a CUDA device's
/// (device/device_arithmetic.h). PyTorch's operators are called as the program calls them, but that
/// nobody sees them. @pre BelowProgram
class Arithmetic {
 public:
  Arithmetic() = default;
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;
  virtual ~Arithmetic() = default;

  /// @throws c10::Error when there is no memory
  virtual c10::DataPtr allocate(std::size_t bytes) const = 0;

  /// A tensor in memory of another owner.
  virtual at::Tensor blob(const void* data, const Layout& layout, c10::ScalarType type) const = 0;

  static void copy(const at::Tensor& from, at::Tensor& to);

  /// The values of a step's `others`, at most three; those that there are not are undefined.
  using Others = std::array<at::Tensor, 3>;

  /// Applies a step that is one of PyTorch's operators. The tensors lie as in the forward: PyTorch
  /// chooses some kernels by whether their input is contiguous, and these differ in the last bit.
  /// @return false, and nothing is done, if the step is for apply_in_floats() or fused_attention()
  bool apply(const Recipe::Step& step, const at::Tensor& in, const Others& others,
             at::Tensor& out) const;

  /// The function of a step that Recipe::is_curved().
  static codecs::Smooth function_of(const Recipe::Step& step) noexcept;

  /// What a norm, a ReLU or a max-pool reads besides its operand. Null if there is none.
  struct Inputs {
    const float* mean = nullptr;
    const float* rstd = nullptr;
    const std::int64_t* indices = nullptr;
    /// Signs of the result, for a ReLU that is the recipe's last step: one bit an element, in the
    /// order of memory.
    const std::byte* mask = nullptr;
  };

  /// Whether apply_in_floats() takes an operand and a result of these types. It takes float32.
  virtual bool takes(const Recipe::Step& step, c10::ScalarType from, c10::ScalarType to) const = 0;

  /// Applies a norm, a ReLU or a max-pool. It computes in float32, and rounds to `out`. Of layer
  /// norm alone, `in` may have any strides. @pre takes(step, type of in, type of out)
  virtual void apply_in_floats(const Recipe::Step& step, const at::Tensor& in, const Inputs& inputs,
                               at::Tensor& out) const = 0;

  /// A batch norm, and the steps behind it: the sum with another value, a ReLU.
  struct ChannelNorm {
    const Recipe::Step& norm;
    Inputs inputs;     ///< of all of them
    at::Tensor added;  ///< undefined: no sum
    bool relu = false;
  };

  /// Applies them in one pass, with the bits that one after the other give.
  /// @return false, and nothing is done, where that can't be
  virtual bool apply_together(const ChannelNorm& /*steps*/, const at::Tensor& /*in*/,
                              at::Tensor& /*out*/) const {
    return false;
  }

  /// Runs a program for as many elements as `out` has. @pre it is a CUDA device's
  /// @return false, and nothing is done, where that can't be
  virtual bool run(const codecs::cuda::Program& /*program*/, at::Tensor& /*out*/) const {
    return false;
  }

  /// apply() to decoded values `in`, without what their errors add to the result on average
  /// (codecs/arithmetic/curvature.h). @param first Where `in` begins in the source's storage, in
  /// elements
  /// @return false, and nothing is done, where it is not known how
  /// @pre Recipe::is_curved(step.op), errors.are_even()
  virtual bool apply_without_bias(const Recipe::Step& step, const at::Tensor& in,
                                  const SourceErrors& errors, std::int64_t first,
                                  at::Tensor& out) const = 0;

  /// `count` of the tensor's places along a dimension, in its memory. @pre it has as many
  at::Tensor slice_of(const at::Tensor& tensor, std::int64_t dim, std::int64_t first,
                      std::int64_t count) const;

 private:
  /// Copies the elements of `in` to where they are after the shifts of the dimensions from `dim`
  /// on.
  void roll(const Recipe::Step& step, std::size_t dim, const at::Tensor& in, at::Tensor& out) const;
};

}  // namespace cinch::hooks
