// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Included by all kernels instead of CUDA's headers: gives either CUDA or a stand-in that runs
/// kernels on the host, so that tests can check their logic without a GPU (tests/cuda_on_host).
#ifdef CINCH_CUDA_ON_HOST
#include "cuda_on_host.h"
#else
#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>

#include <cuda_runtime.h>

#include "codecs/cuda/library/loading.h"
#include "codecs/cuda/succeeds.h"

/// Declares `name` as the block's dynamic shared memory, aligned to 16 bytes.
#define CINCH_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char cinch_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(cinch_dynamic_shared)

namespace cinch::codecs::cuda {

/// Loads a kernel onto the current device, and lets it use `shared_bytes` of dynamic shared memory.
/// @return false when the device can't do so (now)
bool load_kernel(const void* kernel, std::size_t shared_bytes) noexcept;

/// Enqueues a launch of `kernel` with blocks of one dimension. The arguments are converted to the
/// kernel's parameters and read before it returns. Under a Loading, only loads the kernel.
/// @pre the kernel was loaded with as many shared_bytes, if static and dynamic shared memory
/// together exceed 48 KiB
/// @return false when it can't be launched; later launches are not affected (see succeeds)
template <typename... Parameters, typename... Arguments>
bool launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) noexcept {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (Loading::wanted()) return load_kernel(function, shared_bytes);
  std::tuple<std::decay_t<Parameters>...> parameters(arguments...);
  return std::apply(
      [&](auto&... each) {
        std::array<void*, sizeof...(each)> pointers = {&each...};
        return succeeds([&] {
          return cudaLaunchKernel(function, dim3(blocks), dim3(threads), pointers.data(),
                                  shared_bytes, stream);
        });
      },
      parameters);
}

}  // namespace cinch::codecs::cuda
#endif

namespace cinch::codecs::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

}  // namespace cinch::codecs::cuda
