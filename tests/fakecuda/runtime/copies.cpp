// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills. As in CUDA, when the call returns, a copy from pageable memory has read it and
// a copy to pageable memory is done; other copies are work of the stream.
#include <cstring>
#include <memory>
#include <vector>

#include "calls.h"
#include "launches.h"
#include "memory.h"
#include "scheduler.h"

namespace fakecuda {
namespace {

/// A rectangle; pitches in bytes.
struct Copy {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t height;
};

void copy_rows(const Copy& c) {
  if (c.height == 1) {
    std::memmove(c.to, c.from, c.width);
    return;
  }
  for (std::size_t row = 0; row < c.height; ++row) {
    std::memmove(static_cast<char*>(c.to) + row * c.to_pitch,
                 static_cast<const char*>(c.from) + row * c.from_pitch, c.width);
  }
}

bool is_pageable(const void* memory) {
  return !is_device_address(memory) && find_region(memory) == nullptr;
}

enum class Between : std::uint8_t { any, peers };

/// @param blocking whether the call always waits until the copy is done
/// @param between peers if the call names both devices; else the stream's device alone must be able
/// to access both ends
cudaError_t copy(Copy c, void* handle, bool blocking, CallSite& site,
                 Between between = Between::any) {
  if (c.width == 0 || c.height == 0) return cudaSuccess;
  const std::size_t to_bytes = (c.height - 1) * c.to_pitch + c.width;
  const std::size_t from_bytes = (c.height - 1) * c.from_pitch + c.width;
  Stream& stream = stream_of(handle);
  const int device = between == Between::peers ? -1 : stream.device;
  if (!accessible(c.to, to_bytes, device) || !accessible(c.from, from_bytes, device)) {
    return cudaErrorInvalidValue;
  }
  if (blocking || is_pageable(c.to) || is_pageable(c.from)) may_synchronize(site);
  const bool waits = blocking || (is_pageable(c.to) && is_device_address(c.from));
  if (waits && stream.recording) return cudaErrorStreamCaptureUnsupported;
  std::shared_ptr<std::vector<char>> staged;
  if (!waits && is_pageable(c.from) && !is_eager(stream)) {
    staged = std::make_shared<std::vector<char>>(static_cast<const char*>(c.from),
                                                 static_cast<const char*>(c.from) + from_bytes);
    c.from = staged->data();
  }
  enqueue(stream, "a copy", [c, staged] { copy_rows(c); },
          {{c.to, to_bytes}, {c.from, from_bytes}});
  if (!waits) return cudaSuccess;
  host_waits(site);
  finish(stream);
  saw(stream);
  return cudaSuccess;
}

Copy plain(void* to, const void* from, std::size_t bytes) {
  return {to, bytes, from, bytes, bytes, 1};
}

template <class Value>
cudaError_t fill(void* to, Value value, std::size_t count, void* handle) {
  const std::size_t bytes = count * sizeof(Value);
  if (!accessible(to, bytes)) return cudaErrorInvalidValue;
  enqueue(stream_of(handle), "a fill",
          [=] {
            for (std::size_t i = 0; i < count; ++i) {
              std::memcpy(static_cast<char*>(to) + i * sizeof(Value), &value, sizeof(Value));
            }
          },
          {{to, bytes}});
  return cudaSuccess;
}

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  FAKECUDA_RUNTIME(cudaMemcpy, "%p %p %zu", to, from, bytes);
  return returned(copy(plain(to, from, bytes), nullptr, true, site));
}
FAKECUDA_API cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                         cudaMemcpyKind, cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaMemcpyAsync, "%p %p %zu %p", to, from, bytes, static_cast<void*>(stream));
  return returned(copy(plain(to, from, bytes), stream, false, site));
}
FAKECUDA_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int,
                                             std::size_t bytes, cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaMemcpyPeerAsync, "%p %p %zu %p", to, from, bytes,
                   static_cast<void*>(stream));
  return returned(copy(plain(to, from, bytes), stream, false, site, Between::peers));
}
FAKECUDA_API cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                           std::size_t from_pitch, std::size_t width,
                                           std::size_t height, cudaMemcpyKind,
                                           cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaMemcpy2DAsync, "%p %p %zu*%zu %p", to, from, width, height,
                   static_cast<void*>(stream));
  return returned(copy({to, to_pitch, from, from_pitch, width, height}, stream, false, site));
}
FAKECUDA_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                                            std::size_t offset, cudaMemcpyKind) {
  FAKECUDA_RUNTIME(cudaMemcpyToSymbol, "%p %zu", symbol, bytes);
  void* to = variable_of(symbol);
  if (to == nullptr) return returned(cudaErrorInvalidSymbol);
  return returned(copy(plain(static_cast<char*>(to) + offset, from, bytes), nullptr, true, site));
}
FAKECUDA_API cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  FAKECUDA_RUNTIME(cudaMemset, "%p %zu", to, bytes);
  may_synchronize(site);
  return returned(fill(to, static_cast<unsigned char>(value), bytes, nullptr));
}
FAKECUDA_API cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes,
                                         cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaMemsetAsync, "%p %zu %p", to, bytes, static_cast<void*>(stream));
  return returned(fill(to, static_cast<unsigned char>(value), bytes, stream));
}

FAKECUDA_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count,
                                      CUstream stream) {
  FAKECUDA_DRIVER(cuMemsetD8Async, "%p %zu %p", pointer(to), count, static_cast<void*>(stream));
  return static_cast<CUresult>(fill(pointer(to), value, count, stream));
}
FAKECUDA_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count,
                                       CUstream stream) {
  FAKECUDA_DRIVER(cuMemsetD32Async, "%p %zu %p", pointer(to), count, static_cast<void*>(stream));
  return static_cast<CUresult>(fill(pointer(to), value, count, stream));
}
FAKECUDA_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr to, cuuint32_t value,
                                              unsigned) {
  FAKECUDA_DRIVER(cuStreamWriteValue32_v2, "%p %p", static_cast<void*>(stream), pointer(to));
  return static_cast<CUresult>(fill(pointer(to), value, 1, stream));
}
#undef cuMemcpyAsync
FAKECUDA_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                    CUstream stream) {
  FAKECUDA_DRIVER(cuMemcpyAsync, "%p %p %zu %p", pointer(to), pointer(from), bytes,
                  static_cast<void*>(stream));
  return static_cast<CUresult>(copy(plain(pointer(to), pointer(from), bytes), stream, false, site));
}
#undef cuMemcpyDtoHAsync_v2
FAKECUDA_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes,
                                           CUstream stream) {
  FAKECUDA_DRIVER(cuMemcpyDtoHAsync_v2, "%p %p %zu %p", to, pointer(from), bytes,
                  static_cast<void*>(stream));
  return static_cast<CUresult>(copy(plain(to, pointer(from), bytes), stream, false, site));
}
FAKECUDA_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                                           CUstream stream) {
  FAKECUDA_DRIVER(cuMemcpyHtoDAsync_v2, "%p %p %zu %p", pointer(to), from, bytes,
                  static_cast<void*>(stream));
  return static_cast<CUresult>(copy(plain(pointer(to), from, bytes), stream, false, site));
}
