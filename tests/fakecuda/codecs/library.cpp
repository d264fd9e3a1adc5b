// SPDX-License-Identifier: Apache-2.0
//
// libcinch_cuda.so for the fake runtime: runs the CPU engine's codecs as work of a stream. They
// write the same bytes as the kernels (tests/codecs/cuda compares them), so training on "cuda" must
// give the same bits as training on the CPU.
#include "codecs/cuda/library.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "codecs/cuda/host_memory.h"
#include "fakecuda.h"

namespace cinch::codecs::cuda {
namespace {

/// An encode or decode that a stream will run.
struct Call {
  std::shared_ptr<const Codec> codec;
  Description what;
  std::vector<std::uint8_t> plane_bits;
  const void* source = nullptr;
  std::span<const std::byte> in;
  std::span<std::byte> out;
  void* target = nullptr;
  Result* result = nullptr;
  RandomKey key;
  Reads reads = Reads::values;

  Call(std::shared_ptr<const Codec> used, const Description& description)
      : codec(std::move(used)),
        what(description),
        plane_bits(description.plane_bits.begin(), description.plane_bits.end()) {
    what.plane_bits = plane_bits;
  }
};

void run_encode(void* context) {
  auto& call = *static_cast<Call*>(context);
  const Encoded encoded =
      call.codec->encode(call.what, call.source, call.out, call.key, serial_for);
  if (!encoded.representable) call.result->not_representable = 1;
  // Last, and not 0: the host may look at it from another thread.
  __atomic_store_n(&call.result->bytes, std::max<std::uint64_t>(encoded.bytes, 1),
                   __ATOMIC_RELEASE);
}

void run_decode(void* context) {
  auto& call = *static_cast<Call*>(context);
  if (!call.codec->decode(call.what, call.in, call.target, call.reads, serial_for)) {
    fakecuda_break("decoding what was never encoded", 719 /* cudaErrorLaunchFailure */);
  }
}

void destroy(void* context) {
  delete static_cast<Call*>(context);
}

class OnHost final : public DeviceCodec {
 public:
  explicit OnHost(std::shared_ptr<const Codec> codec) : codec_(std::move(codec)) {}

  bool accepts(const Description& what) const noexcept override { return codec_->accepts(what); }

  // Not 0, so that the fake notices scratch memory that is freed before the work has run.
  std::size_t scratch_bytes(const Description&) const noexcept override { return 256; }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    auto* const call = new Call(codec_, what);
    call->source = source;
    call->out = {out, codec_->encoded_bytes(what)};
    call->result = result;
    call->key = key;
    const fakecuda_range used[] = {{source, values_bytes(what)},
                                   {out, call->out.size()},
                                   {result, sizeof(Result)},
                                   {scratch, scratch_bytes(what)}};
    fakecuda_enqueue(stream, "cinch encode", run_encode, destroy, call, used, std::size(used));
    return true;
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* scratch, Stream stream) const noexcept override {
    auto* const call = new Call(codec_, what);
    call->in = in;
    call->target = target;
    call->reads = reads;
    const fakecuda_range used[] = {
        {in.data(), in.size()}, {target, values_bytes(what)}, {scratch, scratch_bytes(what)}};
    fakecuda_enqueue(stream, "cinch decode", run_decode, destroy, call, used, std::size(used));
    return true;
  }

 private:
  static std::size_t values_bytes(const Description& what) {
    return static_cast<std::size_t>(what.layout.elements()) * element_size(what.type);
  }

  std::shared_ptr<const Codec> codec_;
};

std::shared_ptr<const DeviceCodec> make(const CodecSpec& spec) {
  auto codec = make_codec(spec);
  return codec == nullptr ? nullptr : std::make_shared<OnHost>(std::move(codec));
}

bool load(const DeviceCodec&, const Description&) noexcept {
  return true;
}

bool is_capturing(Stream stream) noexcept {
  return fakecuda_is_capturing(stream) != 0;
}

/// A copy of bytes. Skipped if `result` is set and says that the encoding is of use (keep_source).
struct Bytes {
  std::vector<std::byte> own;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
  const Result* result = nullptr;
  std::uint64_t below = 0;
};

bool enqueue(Bytes copy, const char* what, Stream stream) noexcept {
  auto* const bytes = new Bytes(std::move(copy));
  if (bytes->from == nullptr) bytes->from = bytes->own.data();
  const fakecuda_range used[] = {{bytes->from, bytes->bytes},
                                 {bytes->to, bytes->bytes},
                                 {bytes->result, bytes->result == nullptr ? 0 : sizeof(Result)}};
  const auto run = [](void* context) {
    const auto& b = *static_cast<const Bytes*>(context);
    if (b.result != nullptr && b.result->not_representable == 0 && b.result->bytes < b.below) {
      return;
    }
    std::memcpy(b.to, b.from, b.bytes);
  };
  fakecuda_enqueue(
      stream, what, run, [](void* context) { delete static_cast<Bytes*>(context); }, bytes, used,
      std::size(used));
  return true;
}

bool write(void* to, const void* from, std::size_t bytes, Stream stream) noexcept {
  const auto* const first = static_cast<const std::byte*>(from);
  return enqueue({{first, first + bytes}, nullptr, to, bytes}, "cinch write", stream);
}

bool keep_source(const Result* result, std::uint64_t below, const void* source, void* target,
                 std::size_t bytes, Stream stream) noexcept {
  return enqueue({{}, source, target, bytes, result, below}, "cinch keep_source", stream);
}

constexpr Library library = {library_abi,     make, load,  is_capturing, make_stream,
                             allocate_pinned, copy, write, keep_source,  progress,
                             synchronize};

}  // namespace
}  // namespace cinch::codecs::cuda

extern "C" __attribute__((visibility("default"))) const cinch::codecs::cuda::Library*
cinch_cuda_library() {
  return &cinch::codecs::cuda::library;
}
