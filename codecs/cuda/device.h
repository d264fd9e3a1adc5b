// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What kernels are written in: CUDA, or a stand-in for it that runs them on the host, so that
/// their logic is tested where there is no GPU (tests/cuda_on_host).
#ifdef CINCH_CUDA_ON_HOST
#include "cuda_on_host.h"
#else
#include <cstddef>

#include <cuda_runtime.h>

/// Declares `name` as the block's dynamic shared memory, aligned to 16 bytes.
#define CINCH_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char cinch_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(cinch_dynamic_shared)

namespace cinch::codecs::cuda {

/// Enqueues kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...); false when it can't be
/// launched. Static and dynamic shared memory above 48 KiB must have been allowed before.
template <typename... Parameters, typename... Arguments>
bool launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) noexcept {
  // clang-format off
  kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...);
  // clang-format on
  return cudaPeekAtLastError() == cudaSuccess;
}

}  // namespace cinch::codecs::cuda
#endif

namespace cinch::codecs::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

}  // namespace cinch::codecs::cuda
