// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Included by all kernels instead of CUDA's headers: gives either CUDA or a stand-in that runs
/// kernels on the host, so that tests can check their logic without a GPU (tests/cuda_on_host).
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

/// Enqueues kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...).
/// @pre allow_shared, if static and dynamic shared memory together exceed 48 KiB
/// @return false when it can't be launched
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
