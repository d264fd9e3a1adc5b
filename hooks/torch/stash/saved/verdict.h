// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "codecs/codec.h"

namespace cinch::hooks {

/// Whether Cinch wants a tensor that autograd is about to save, or why not.
enum class Verdict : std::uint8_t {
  wanted,
  undefined,  ///< nothing is saved
  not_plain,  ///< subclass without plain tensors in it, fake, functorch, sparse, nested, quantized,
              ///< lazily negative …
  device,     ///< on a CUDA device, and this installation has no codecs for it
  transform,  ///< torch.func, tracing, functionalization at work
  inplace_view,     ///< output of an in-place op on a view: PyTorch's own bookkeeping is needed
  small,            ///< storage below the policy's min_bytes
  type,             ///< element type without a codec
  integers,         ///< integers that aren't an operator's output: user-held indices, targets
  parameter,        ///< a parameter, or a view or cast of one
  foreign_storage,  ///< memory that didn't come from the device's ordinary allocator (NumPy,
                    ///< shared)
  during_backward,  ///< saved while a backward runs that builds no graph: it is read back at once
  user_hooks,       ///< the program's own saved-tensor hooks are in force
  paused,           ///< `cinch ctl --pause`
  capture,          ///< a CUDA graph is being captured, which would record Cinch's work, too
  python_object,    ///< saved for Python code that would miss its class or its attributes
};

/// Text for the report's list of uncompressed tensors; empty where nothing is missed.
std::string_view reason(Verdict verdict) noexcept;
inline constexpr std::size_t verdict_count = 16;

/// Judges `tensor`, cheapest questions first. Never throws, never runs an operator, never touches a
/// symbolic size.
Verdict judge(const at::Tensor& tensor, bool is_output, bool is_inplace_on_view,
              std::size_t min_bytes) noexcept;

/// Judges a tensor whose verdict is not_plain: `wanted` if it is of a wrapper subclass
/// (wrapper_tensor.h) and worth being taken apart. Never runs an operator or Python, never throws.
Verdict judge_wrapper(const at::Tensor& tensor, bool is_inplace_on_view,
                      std::size_t min_bytes) noexcept;

/// Whether the device's ordinary allocator frees the storage's memory.
bool from_ordinary_allocator(const c10::StorageImpl& storage);

/// Bytes of `tensor`'s storage; 0 without one, or if the tensor has symbolic sizes.
std::size_t storage_bytes(const at::Tensor& tensor) noexcept;

/// The codecs' type for a dtype, of complex dtypes for their parts; `other` for dtypes that they
/// don't know.
codecs::ElementType element_type(c10::ScalarType type) noexcept;

}  // namespace cinch::hooks
