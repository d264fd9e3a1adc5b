// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/on_device/on_device.h"

#include <exception>
#include <new>
#include <utility>

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "codecs/affine.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/device/result_pool.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/entry/source_errors.h"
#include "hooks/torch/stash/on_device/offload.h"

namespace cinch::hooks {
namespace {

c10::impl::VirtualGuardImpl guard_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type());
}

c10::DataPtr allocate(c10::Device device, std::size_t bytes) {
  return c10::GetAllocator(device.type())->allocate(bytes);
}

struct Encoded final : InFlight::Moment {
  explicit Encoded(StreamWork encoding) : work(std::move(encoding)) {}
  bool happened() const noexcept override { return work.happened(); }
  void wait() const override { work.wait_on_host(); }
  const StreamWork work;
};

// Enqueues a codec's work. A launch fails where a kernel could not be loaded for lack of memory: it
// is then loaded and the work enqueued anew, which does no harm to what was enqueued of it before.
template <typename Enqueue>
bool enqueue_with_kernels(const Plan::Candidate& candidate, const codecs::Description& what,
                          const Enqueue& enqueue) {
  return enqueue() || (cuda_codecs()->load(*candidate.on_device, what) && enqueue());
}

// Makes the entry's encoded bytes usable in the further work of `stream`, the current one.
void lend_encoded(const OnDevice& held, const c10::Stream& stream) {
  if (is_capturing(stream)) {
    if (held.encoding->stream != stream) held.encoding->wait_on_host();
    return;
  }
  held.encoding->block(stream);
  record_use(held.encoded, stream);
}

// Enqueues decoding `encoded`, the entry's encoded bytes, to `target`. They are valid in `stream`.
// @return false when a kernel could not be launched
bool enqueue_decoding(const Entry& entry, const void* encoded, void* target, codecs::Reads reads,
                      const c10::Stream& stream) {
  const Plan::Candidate& candidate = held_by(entry);
  const codecs::Description what = described(candidate, entry);
  const std::size_t scratch = candidate.on_device->scratch_bytes(what);
  const c10::DataPtr memory = scratch == 0 ? c10::DataPtr() : allocate(stream.device(), scratch);
  return enqueue_with_kernels(candidate, what, [&] {
    return candidate.on_device->decode(
        what, {static_cast<const std::byte*>(encoded), entry.encoded_bytes}, target, reads,
        memory.get(), native(stream));
  });
}

// Has the device overwrite the decoded values in `target` by `source` if, by `result`, encoding did
// not serve. @return false when the kernel could not be launched
bool enqueue_choice(const codecs::cuda::Result* result, const c10::Storage& source, void* target,
                    const c10::Stream& stream) {
  return cuda_codecs()->keep_source(result, source.nbytes(), source.data(), target, source.nbytes(),
                                    native(stream));
}

// Bytes of the channels' bounds, rounded up so that the scratch behind them is aligned.
std::size_t bound_bytes(const codecs::Description& what) {
  if (what.channel_bound == nullptr) return 0;
  constexpr std::size_t alignment = 16;
  const std::size_t bytes = static_cast<std::size_t>(what.layout.channels()) * sizeof(float);
  return (bytes + alignment - 1) / alignment * alignment;
}

/// The device memory of an encoding besides its source and target: channels' bounds, scratch, and a
/// result that nobody reads, or that only the device reads.
struct EncodeMemory {
  c10::DataPtr memory;
  codecs::Description what;  ///< with the channels' bounds in device memory
  void* scratch = nullptr;

  codecs::cuda::Result* result() const noexcept {
    return static_cast<codecs::cuda::Result*>(memory.get());
  }

  /// Allocates, and enqueues writing the channels' bounds and, if it `is_read`, a result of zeros.
  /// @throws c10::Error when there is no memory or a write could not be enqueued
  EncodeMemory(const Plan::Candidate& candidate, const codecs::Description& described,
               const c10::Stream& stream, bool is_read)
      : what(described) {
    const codecs::cuda::Result nothing = {};
    const std::size_t bounds = bound_bytes(what);
    memory = allocate(stream.device(),
                      sizeof nothing + bounds + candidate.on_device->scratch_bytes(what));
    auto* const numbers = static_cast<std::byte*>(memory.get()) + sizeof nothing;
    scratch = numbers + bounds;
    bool enqueued = true;
    if (is_read)
      enqueued = cuda_codecs()->write(result(), &nothing, sizeof nothing, native(stream));
    if (bounds != 0) {
      const std::size_t bytes = static_cast<std::size_t>(what.layout.channels()) * sizeof(float);
      enqueued &= cuda_codecs()->write(numbers, what.channel_bound, bytes, native(stream));
      what.channel_bound = reinterpret_cast<const float*>(numbers);
    }
    TORCH_CHECK(enqueued, "cinch: a kernel could not be launched");
  }
};

}  // namespace

int Entry::device_index() const noexcept {
  return device == nullptr ? -1 : static_cast<int>(device->index());
}

std::size_t Entry::offloaded_bytes() const noexcept {
  return device == nullptr ? 0 : device->offloaded_bytes;
}

const c10::Storage& Entry::source() const noexcept {
  return device->source;
}

bool Entry::keeps_source() const noexcept {
  return device != nullptr && static_cast<bool>(device->source);
}

std::size_t bytes_to_encode(const codecs::cuda::DeviceCodec& codec, const codecs::Description& what,
                            std::size_t bound) {
  constexpr std::size_t rounding = 4096;
  return bound + sizeof(codecs::cuda::Result) + bound_bytes(what) + codec.scratch_bytes(what) +
         rounding;
}

bool encode_on_device(Entry& entry, const Plan::Candidate& candidate, const codecs::RandomKey& key,
                      const c10::Stream& stream, ResultPool& results) try {
  OnDevice& held = *entry.device;
  const c10::OptionalStreamGuard guard(stream);
  std::shared_ptr<EncodeOutcome> outcome;
  if (candidate.sized_by_data) {
    outcome = EncodeOutcome::make(results, stream);
    if (outcome == nullptr) return false;
  }
  StreamWork{held.saved_on, nullptr}.block(stream);
  const EncodeMemory memory(candidate, described(candidate, entry), stream, /*is_read=*/false);
  c10::DataPtr encoded = allocate(stream.device(), candidate.bound);
  // First, since some of the work may be enqueued when this fails.
  guard_of(stream.device()).recordDataPtrOnStream(entry.raw.data_ptr(), stream);
  const bool enqueued = candidate.on_device->encode(
      memory.what, entry.raw.data(), static_cast<std::byte*>(encoded.get()),
      outcome != nullptr ? outcome->result() : memory.result(), memory.scratch, key,
      native(stream));
  if (!enqueued) {
    if (outcome != nullptr) outcome->give_up();
    // Perhaps a kernel could not be loaded before: for the next one.
    cuda_codecs()->load(*candidate.on_device, memory.what);
    return false;
  }
  if (outcome != nullptr) outcome->enqueued();
  const bool leaves = entry.plan().offload == policy::Decision::Offload::always;
  held.encoding = leaves ? work_of(stream) : work_beside(stream, held.saved_on);
  held.encoded = std::move(encoded);
  held.outcome = std::move(outcome);
  return true;
} catch (const std::exception&) {
  return false;
}

bool shrink(Entry& entry, std::size_t bytes) noexcept try {
  OnDevice& held = *entry.device;
  const c10::Stream stream = held.encoding->stream;
  if (is_capturing(stream)) return false;
  const c10::OptionalStreamGuard guard(stream);
  c10::DataPtr exact = allocate(stream.device(), bytes);
  if (!cuda_codecs()->copy(exact.get(), held.encoded.get(), bytes, native(stream))) return false;
  held.encoded = std::move(exact);
  const bool leaves = entry.plan().offload == policy::Decision::Offload::always;
  held.encoding = leaves ? work_of(stream) : work_beside(stream, held.saved_on);
  return true;
} catch (const std::exception&) {
  return false;
}

std::shared_ptr<const InFlight::Moment> when_encoded(const Entry& entry) {
  const OnDevice& held = *entry.device;
  if (held.encoding->stream == held.saved_on || held.encoding->done == nullptr) return nullptr;
  return std::make_shared<const Encoded>(*held.encoding);
}

bool needs_fetch(const Entry& entry, codecs::Reads reads) {
  const OnDevice& held = *entry.device;
  return reads != codecs::Reads::nothing && held.on_host != nullptr &&
         held.encoded.get() == nullptr;
}

// Restores the entry's values to `target` where the device can't launch its kernels: the host
// decodes, and waits for the encoded bytes. pre: held.encoded is valid in `stream`
void decode_by_host(const Entry& entry, void* target, codecs::Reads reads,
                    const c10::Stream& stream) {
  const OnDevice& held = *entry.device;
  const auto restored = [&] {
    if (held.outcome != nullptr) {
      held.outcome->wait();
      if (!held.outcome->bytes(entry.raw_bytes)) {
        return cuda_codecs()->copy(target, held.source.data(), entry.raw_bytes, native(stream));
      }
    }
    const Plan::Candidate& candidate = held_by(entry);
    const auto encoded = host_copy(held.encoded.get(), entry.encoded_bytes, stream);
    const std::unique_ptr<std::byte[]> values(new (std::nothrow) std::byte[entry.raw_bytes]);
    return encoded != nullptr && values != nullptr &&
           candidate.codec->decode(described(candidate, entry),
                                   {encoded.get(), entry.encoded_bytes}, values.get(), reads,
                                   torch_parallel_for) &&
           cuda_codecs()->copy(target, values.get(), entry.raw_bytes, native(stream));
  };
  TORCH_CHECK(restored(),
              "cinch: a saved tensor can be decoded neither on the device, which does "
              "not launch the kernels, nor on the host");
}

c10::Storage decode_on_device(Entry& entry, codecs::Reads reads, const c10::Stream& stream) {
  OnDevice& held = *entry.device;
  const bool is_read = entry.state != Entry::State::dropped && reads != codecs::Reads::nothing;
  if (needs_fetch(entry, reads)) {
    if (entry.state == Entry::State::moved) return fetch_raw(entry);
    fetch_encoded(entry);
  }
  const c10::OptionalStreamGuard guard(stream);
  c10::DataPtr data = allocate(stream.device(), entry.raw_bytes);
  if (is_read) {
    held.encoding->block(stream);
    guard_of(stream.device()).recordDataPtrOnStream(held.encoded, stream);
    bool enqueued = enqueue_decoding(entry, held.encoded.get(), data.get(), reads, stream);
    if (held.outcome != nullptr) {
      guard_of(stream.device()).recordDataPtrOnStream(held.source.data_ptr(), stream);
      enqueued =
          enqueued && enqueue_choice(held.outcome->result(), held.source, data.get(), stream);
      held.outcome->read_by(work_of(stream));
    }
    if (!enqueued) decode_by_host(entry, data.get(), reads, stream);
    if (held.on_host != nullptr) held.encoded = {};
  }
  held.decoding[static_cast<std::size_t>(reads)] = work_beside(lasting(stream), held.saved_on);
  return storage_of(std::move(data), entry.raw_bytes, c10::GetAllocator(stream.device_type()));
}

c10::Storage decode_in_capture(Entry& entry, codecs::Reads reads) {
  OnDevice& held = *entry.device;
  const bool is_sized = held.outcome == nullptr || held.outcome->happened();
  if (held.outcome != nullptr && is_sized && !held.outcome->bytes(entry.raw_bytes)) {
    return held.source;
  }
  const c10::Stream stream = current_stream(held.saved_on.device());
  c10::DataPtr data = allocate(stream.device(), entry.raw_bytes);
  if (entry.state == Entry::State::moved && reads != codecs::Reads::nothing) {
    copy_in_capture(held, data.get(), {0, entry.raw_bytes}, stream);
  } else if (entry.state != Entry::State::dropped && reads != codecs::Reads::nothing) {
    c10::DataPtr fetched;
    if (held.on_host != nullptr) {
      fetched = allocate(stream.device(), entry.encoded_bytes);
      copy_in_capture(held, fetched.get(), {0, entry.encoded_bytes}, stream);
    } else if (held.encoding->stream != stream) {
      held.encoding->wait_on_host();
    }
    const c10::DataPtr& encoded = held.on_host != nullptr ? fetched : held.encoded;
    TORCH_CHECK(enqueue_decoding(entry, encoded.get(), data.get(), reads, stream),
                "cinch: a graph can't be captured: decoding a saved tensor could not be launched");
    if (!is_sized) {
      held.graph_chooses = true;
      TORCH_CHECK(enqueue_choice(held.outcome->result(), held.source, data.get(), stream),
                  "cinch: a graph can't be captured: a kernel could not be launched");
    }
  }
  return storage_of(std::move(data), entry.raw_bytes, c10::GetAllocator(stream.device_type()));
}

// Masks are not offloaded.
const std::byte* lent_mask(Entry& entry, const c10::Stream& stream) {
  const EntryWork work(entry);
  lend_encoded(*entry.device, stream);
  return static_cast<const std::byte*>(entry.device->encoded.get());
}

// What is decoded is not encoded anew, and holders keep the entry. It may be on the host meanwhile,
// and then only the ranges are copied back.
bool apply_without_bias(Entry& source, codecs::Smooth function, codecs::ElementType type,
                        const codecs::cuda::Rows& rows, const void* x, void* y,
                        const c10::Stream& stream) {
  const EntryWork work(source);
  OnDevice& held = *source.device;
  const auto errors = even_errors(source);
  if (!errors) return false;
  const auto first = static_cast<std::size_t>(errors->ranges);
  const std::byte* ranges = nullptr;
  c10::DataPtr fetched;
  if (held.on_host != nullptr) {
    const std::size_t bytes =
        static_cast<std::size_t>(errors->groups) * sizeof(codecs::AffineRange);
    fetched = allocate(stream.device(), bytes);
    const Part part = {first, bytes};
    if (is_capturing(stream)) {
      copy_in_capture(held, fetched.get(), part, stream);
    } else {
      copy_back(held, fetched.get(), part, stream);
    }
    ranges = static_cast<const std::byte*>(fetched.get());
  } else {
    lend_encoded(held, stream);
    ranges = static_cast<const std::byte*>(held.encoded.get()) + first;
  }
  const codecs::cuda::GroupRanges of = {ranges, errors->order};
  return cuda_codecs()->apply_without_bias(function, type, of, rows, x, y, native(stream));
}

c10::Storage round_trip(const c10::Storage& values, const Plan::Candidate& candidate,
                        const codecs::RandomKey& key, const c10::Stream& valid_in) try {
  const c10::Stream stream = current_stream(values.device());
  StreamWork{valid_in, nullptr}.block(stream);
  const codecs::cuda::DeviceCodec& codec = *candidate.on_device;
  const EncodeMemory memory(candidate, candidate.what, stream, candidate.sized_by_data);
  const c10::DataPtr encoded = allocate(stream.device(), candidate.bound);
  c10::DataPtr decoded = allocate(stream.device(), values.nbytes());
  auto* const bytes = static_cast<std::byte*>(encoded.get());
  if (!codec.encode(memory.what, values.data(), bytes, memory.result(), memory.scratch, key,
                    native(stream)) ||
      !codec.decode(candidate.what, {bytes, candidate.bound}, decoded.get(), codecs::Reads::values,
                    memory.scratch, native(stream))) {
    return {};
  }
  if (candidate.sized_by_data && !enqueue_choice(memory.result(), values, decoded.get(), stream)) {
    return {};
  }
  return storage_of(std::move(decoded), values.nbytes(), c10::GetAllocator(stream.device_type()));
} catch (const std::exception&) {
  return {};
}

std::unique_ptr<std::byte[]> host_copy(const void* memory, std::size_t bytes,
                                       const c10::Stream& stream) {
  if (is_capturing(stream.device())) return nullptr;
  std::unique_ptr<std::byte[]> copy(new (std::nothrow) std::byte[bytes]);
  const c10::OptionalStreamGuard guard(stream);
  if (copy == nullptr || !cuda_codecs()->copy(copy.get(), memory, bytes, native(stream))) {
    return nullptr;
  }
  guard_of(stream.device()).synchronizeStream(stream);
  return copy;
}

void record_use(const c10::DataPtr& memory, const c10::Stream& reader) {
  guard_of(reader.device()).recordDataPtrOnStream(memory, stand_in(reader));
}

void make_usable(const c10::Stream& valid_in, const c10::DataPtr& memory,
                 const c10::Stream& reader) {
  if (valid_in == reader) return;
  StreamWork{valid_in, nullptr}.block(reader);
  record_use(memory, reader);
}

void hand_over(Entry& entry, const c10::Storage& decoded, codecs::Reads reads,
               const c10::Stream& reader) {
  const StreamWork& work = *entry.device->decoding[static_cast<std::size_t>(reads)];
  if (work.stream == reader) return;
  work.block(reader);
  guard_of(reader.device()).recordDataPtrOnStream(decoded.data_ptr(), reader);
}

}  // namespace cinch::hooks
