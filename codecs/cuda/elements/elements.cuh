// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "codecs/codec.h"
#include "codecs/cuda/device.h"
#include "codecs/element_bits.h"
#include "codecs/float_formats.h"

/// Elements of floating-point types in global memory. Kernels work on stretches of 8 logical
/// elements: one Philox block, whole bytes at any number of bits, and 16, 32 or 64 bytes.
namespace cinch::codecs::cuda {

inline constexpr int kStretch = 8;

template <ElementType type>
struct Element {
  using Bits = std::uint16_t;
  static constexpr int kPerVector = 8;
};
template <>
struct Element<ElementType::float32> {
  using Bits = std::uint32_t;
  static constexpr int kPerVector = 4;
};

template <>
struct Element<ElementType::float64> {
  using Bits = std::uint64_t;
  static constexpr int kPerVector = 2;
};

/// The value of a bit pattern; that of float64 rounded to the nearest float32.
template <ElementType type>
__device__ __forceinline__ float value_of(typename Element<type>::Bits bits) {
  if constexpr (type == ElementType::float64) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return static_cast<float>(x);
  } else if constexpr (type == ElementType::float32) {
    return float_of_bits(bits);
  } else if constexpr (type == ElementType::bfloat16) {
    return float_of_bf16(bits);
  } else {
    return float_of_f16(bits);
  }
}

/// The bit pattern of the value nearest to x. @pre x is not NaN
template <ElementType type>
__device__ __forceinline__ typename Element<type>::Bits bits_of(float x) {
  if constexpr (type == ElementType::float64) {
    const double wide = x;
    std::uint64_t bits;
    __builtin_memcpy(&bits, &wide, sizeof bits);
    return bits;
  } else if constexpr (type == ElementType::float32) {
    return float_bits(x);
  } else if constexpr (type == ElementType::bfloat16) {
    return bf16_nearest(x);
  } else {
    return f16_nearest(x);
  }
}

template <ElementType type>
__device__ __forceinline__ float load_value(const void* source, std::int64_t offset) {
  return value_of<type>(static_cast<const typename Element<type>::Bits*>(source)[offset]);
}

/// The bit patterns of `kPerVector` elements, which fill 16 bytes.
template <ElementType type>
struct Vector {
  typename Element<type>::Bits bits[Element<type>::kPerVector];

  __device__ __forceinline__ void load(const void* at) {
    const uint4 v = *static_cast<const uint4*>(at);
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
    if constexpr (type == ElementType::float64) {
      for (int i = 0; i < 2; ++i) bits[i] = words[2 * i] | std::uint64_t{words[2 * i + 1]} << 32;
    } else if constexpr (type == ElementType::float32) {
      for (int i = 0; i < 4; ++i) bits[i] = words[i];
    } else {
      for (int i = 0; i < 8; ++i) {
        bits[i] = static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
      }
    }
  }

  __device__ __forceinline__ void store(void* at) const {
    std::uint32_t words[4];
    if constexpr (type == ElementType::float64) {
      for (int i = 0; i < 4; ++i)
        words[i] = static_cast<std::uint32_t>(bits[i / 2] >> (i % 2 * 32));
    } else if constexpr (type == ElementType::float32) {
      for (int i = 0; i < 4; ++i) words[i] = bits[i];
    } else {
      for (int i = 0; i < 4; ++i) words[i] = bits[2 * i] | std::uint32_t{bits[2 * i + 1]} << 16;
    }
    *static_cast<uint4*>(at) = uint4{words[0], words[1], words[2], words[3]};
  }
};

/// Loads eight consecutive elements from `at`. @pre 16-byte alignment
template <ElementType type>
__device__ __forceinline__ void load_stretch(const void* at, float (&x)[kStretch]) {
  constexpr int kPer = Element<type>::kPerVector;
  for (int v = 0; v < kStretch / kPer; ++v) {
    Vector<type> vector;
    vector.load(static_cast<const std::byte*>(at) + 16 * v);
    for (int i = 0; i < kPer; ++i) x[v * kPer + i] = value_of<type>(vector.bits[i]);
  }
}

/// Stores eight consecutive elements, given as bit patterns, to `at`. @pre 16-byte alignment
template <ElementType type>
__device__ __forceinline__ void store_stretch(void* at,
                                              const typename Element<type>::Bits (&x)[kStretch]) {
  constexpr int kPer = Element<type>::kPerVector;
  for (int v = 0; v < kStretch / kPer; ++v) {
    Vector<type> vector;
    for (int i = 0; i < kPer; ++i) vector.bits[i] = x[v * kPer + i];
    vector.store(static_cast<std::byte*>(at) + 16 * v);
  }
}

/// Gives a value or a pointer to global memory back, from a register: what a loop needs of a
/// kernel's parameters is otherwise computed from them again in every turn.
template <typename T>
__device__ __forceinline__ T kept(T value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_pointer_v<T>) {
    asm("" : "+l"(value));
    __builtin_assume(__isGlobal(value));
  } else {
    static_assert(sizeof(T) == 4);
    asm("" : "+r"(value));
  }
#endif
  return value;
}

/// Stores 16 bytes in global memory that the kernel does not read. Assignments of a uint4 sometimes
/// become four stores.
__device__ __forceinline__ void store_vector(void* at, uint4 vector) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(at)), "r"(vector.x), "r"(vector.y), "r"(vector.z),
                 "r"(vector.w));
#else
  *static_cast<uint4*>(at) = vector;
#endif
}

/// Loads 16 bytes of global memory that the kernel does not write. Loads of a uint4 whose halves
/// are used apart sometimes become several. Volatile, or the compiler may load before it is known
/// whether there is anything at `at`.
__device__ __forceinline__ uint4 load_vector(const void* at) {
#ifdef __CUDA_ARCH__
  uint4 vector;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
               : "l"(__cvta_generic_to_global(at)));
  return vector;
#else
  return *static_cast<const uint4*>(at);
#endif
}

/// The same as store_vector in shared memory.
__device__ __forceinline__ void store_shared_vector(void* at, uint4 vector) {
#ifdef __CUDA_ARCH__
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(at))), "r"(vector.x),
                 "r"(vector.y), "r"(vector.z), "r"(vector.w)
               : "memory");
#else
  *static_cast<uint4*>(at) = vector;
#endif
}

/// Whether the kernels may use 16-byte accesses at `memory`.
inline bool is_vector_aligned(const void* memory) noexcept {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

/// Calls f with `type` as a std::integral_constant. @pre is_quantizable(type)
template <typename F>
auto with_element(ElementType type, const F& f) {
  switch (type) {
    case ElementType::bfloat16:
      return f(std::integral_constant<ElementType, ElementType::bfloat16>());
    case ElementType::float16:
      return f(std::integral_constant<ElementType, ElementType::float16>());
    default:
      return f(std::integral_constant<ElementType, ElementType::float32>());
  }
}

/// The same with float64 too. @pre is_float(type)
template <typename F>
auto with_any_element(ElementType type, const F& f) {
  if (type == ElementType::float64) {
    return f(std::integral_constant<ElementType, ElementType::float64>());
  }
  return with_element(type, f);
}

}  // namespace cinch::codecs::cuda
