// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/on_device/offload.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "hooks/torch/process/process_memory.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/on_device/copied.h"

namespace cinch::hooks {
namespace {

/// Notes that `stream` was given a copy to or from `held`'s piece.
std::shared_ptr<const CopyMoment> note_copy(OnDevice& held, const c10::Stream& stream) {
  auto moment = std::make_shared<const Copied>(stream);
  held.on_host->used(moment);
  return moment;
}

/// Enqueues the copy itself.
bool enqueue_copy(const OnDevice& held, void* target, const Part& part, const c10::Stream& stream) {
  return cuda_codecs()->copy(target, held.on_host->data() + part.first, part.bytes, native(stream));
}

}  // namespace

PinnedPool::Host pinned_host() noexcept {
  return {[](std::size_t bytes) noexcept { return cuda_codecs()->allocate_pinned(bytes); },
          available_host_bytes};
}

unsigned processes_here() noexcept {
  const char* const count = std::getenv("LOCAL_WORLD_SIZE");
  const long processes = count == nullptr ? 1 : std::strtol(count, nullptr, 10);
  return processes < 1 || processes > 4096 ? 1 : static_cast<unsigned>(processes);
}

bool move_to_host(Entry& entry, PinnedPool& pool) {
  OnDevice& held = *entry.device;
  const bool is_raw = entry.state == Entry::State::kept;
  const std::size_t bytes = is_raw ? entry.raw_bytes : entry.encoded_bytes;
  const c10::DataPtr& data = is_raw ? entry.raw.data_ptr() : held.encoded;
  const c10::Stream out = own_stream(Own::out, held.saved_on.device());
  const c10::OptionalStreamGuard guard(out);
  auto piece = pool.take(bytes);
  if (piece == nullptr) return false;
  for (const auto& moment : piece->before()) block(moment, out);
  if (held.encoding) {
    held.encoding->block(out);
  } else {
    StreamWork{held.saved_on, nullptr}.block(out);
  }
  if (!cuda_codecs()->copy(piece->data(), data.get(), bytes, native(out))) return false;
  held.on_host = std::move(piece);
  held.written = note_copy(held, out);
  c10::impl::VirtualGuardImpl(out.device_type()).recordDataPtrOnStream(data, out);
  held.encoded = {};
  if (is_raw) entry.state = Entry::State::moved;
  return true;
}

void copy_back(OnDevice& held, void* target, const Part& part, const c10::Stream& stream) {
  block(held.written, stream);
  TORCH_CHECK(enqueue_copy(held, target, part, stream),
              "cinch: a saved tensor can't be copied back from the host's memory");
  note_copy(held, stream);
}

void copy_in_capture(OnDevice& held, void* target, const Part& part, const c10::Stream& stream) {
  static_cast<const Copied&>(*held.written).work.wait_on_host();
  TORCH_CHECK(enqueue_copy(held, target, part, stream),
              "cinch: the copy of a saved tensor can't be captured");
}

void fetch_encoded(Entry& entry) {
  OnDevice& held = *entry.device;
  const c10::Stream in = own_stream(Own::in, held.saved_on.device());
  const c10::OptionalStreamGuard guard(in);
  c10::DataPtr fetched = c10::GetAllocator(in.device_type())->allocate(entry.encoded_bytes);
  copy_back(held, fetched.get(), {0, entry.encoded_bytes}, in);
  held.encoded = std::move(fetched);
  held.encoding = work_of(in);
}

c10::Storage fetch_raw(Entry& entry) {
  OnDevice& held = *entry.device;
  const c10::Stream in = own_stream(Own::in, held.saved_on.device());
  const c10::OptionalStreamGuard guard(in);
  c10::Allocator* const allocator = c10::GetAllocator(in.device_type());
  c10::DataPtr data = allocator->allocate(entry.raw_bytes);
  copy_back(held, data.get(), {0, entry.raw_bytes}, in);
  held.decoding[static_cast<std::size_t>(codecs::Reads::values)] = work_of(in);
  return storage_of(std::move(data), entry.raw_bytes, allocator);
}

}  // namespace cinch::hooks
