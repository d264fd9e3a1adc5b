// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include "codecs/codec.h"
#include "codecs/cuda/curvature/without_bias.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/in_flight.h"
#include "hooks/torch/stash/device/pinned_pool.h"
#include "hooks/torch/stash/device/stream_work.h"
#include "hooks/torch/stash/device/streams.h"
#include "hooks/torch/stash/entry/plan.h"

namespace cinch::hooks {

class EntryQueue;
class EncodeOutcome;
class ResultPool;
struct Entry;

/// The additional members of an entry on a CUDA device. Guarded by the entry's mutex, unless a
/// comment names the stash's lock.
struct OnDevice {
  explicit OnDevice(const c10::Stream& stream) : saved_on(stream) {}

  std::size_t index() const noexcept { return static_cast<std::size_t>(saved_on.device_index()); }

  /// Whether a parent process made it. CUDA does not work in a forked child, and even destroying an
  /// event would end the child.
  bool is_a_parents() const noexcept { return made_after_ != forks_before(); }

  // Under the stash's lock.
  /// The stream of the last save, in whose order the values are valid: see lasting().
  c10::Stream saved_on;
  EntryQueue* queue = nullptr;      ///< the queue that the entry is in
  std::size_t offloaded_bytes = 0;  ///< see Entry::offloaded_bytes
  bool fetched = false;             ///< counted by ReadAhead as fetched ahead

  // Under the entry's mutex; once the entry is settled they change under both locks.
  /// Set while the host does not know the encoded size: the outcome of the encoding, and its
  /// source, which is kept until then.
  std::shared_ptr<EncodeOutcome> outcome;
  c10::Storage source;
  std::size_t exact_bytes = 0;  ///< of `encoded` in use, where its memory may be larger; else 0

  // Under the entry's mutex.
  c10::DataPtr encoded;
  /// A graph reads source, encoding and outcome, and chooses between them at each replay. They
  /// stay.
  bool graph_chooses = false;
  /// The work that makes `encoded` valid (or `raw`, of a kept entry that is to leave the device).
  std::optional<StreamWork> encoding;
  std::array<std::optional<StreamWork>, codecs::kReadsCount> decoding;
  /// The entry's bytes, once offloaded; `encoded` is then only set between fetching and decoding.
  std::unique_ptr<PinnedPool::Piece> on_host;
  std::shared_ptr<const CopyMoment> written;  ///< the copy to `on_host`

 private:
  unsigned made_after_ = forks_before();
};

/// The bytes that encode_on_device allocates, with the allocator's rounding and alignment.
/// @param what With the channels' bounds in host memory, as for encode_on_device
std::size_t bytes_to_encode(const codecs::cuda::DeviceCodec& codec, const codecs::Description& what,
                            std::size_t bound);

/// Enqueues the encoding of entry.raw on `stream`, behind the work of the stream that the values
/// are valid in. The caller may free the source at once: the allocator knows of the work that still
/// reads it. The host does not wait.
/// If the encoded size is not known beforehand, entry.device->outcome is set, and the caller must
/// keep the source until it has arrived.
/// @param results For the outcome
/// @return false when there is no memory for the result or a kernel could not be launched
/// @pre entry.device is set, the candidate has a device codec, the entry's mutex is held
bool encode_on_device(Entry& entry, const Plan::Candidate& candidate, const codecs::RandomKey& key,
                      const c10::Stream& stream, ResultPool& results);

/// Enqueues the copy of the `bytes` encoded bytes to memory of just that size, on the encoding's
/// stream, and gives up the larger memory as of that copy.
/// @return false when there is no memory, or the stream is captured; nothing has then changed
/// @pre the entry's mutex is held, state is encoded, and it is not on the host
bool shrink(Entry& entry, std::size_t bytes) noexcept;

/// The moment when the encoding is done; null where it is on the stream that the values are valid
/// in, whose order suffices. @pre encode_on_device returned true, the entry's mutex is held
std::shared_ptr<const InFlight::Moment> when_encoded(const Entry& entry);

/// Enqueues the decoding on `stream`. Offloaded bytes that were not fetched yet are copied back
/// first. While the host does not know the outcome of the encoding, the device itself takes the
/// source instead if encoding did not serve. If the device can't launch the kernels, the host waits
/// for the bytes and decodes. For Reads::nothing and dropped entries the content is undefined.
/// @throws c10::Error when there is no memory
c10::Storage decode_on_device(Entry& entry, codecs::Reads reads, const c10::Stream& stream);

/// The same for a graph that the calling thread's current stream is captured into. The graph reads
/// only memory that lives as long as the entry, so it may be replayed: it copies offloaded bytes
/// from the host itself. The host waits for other streams' work on that memory. While it does not
/// know the outcome of the encoding, the graph itself chooses, and source and encoding stay.
/// @throws c10::Error when there is no memory
c10::Storage decode_in_capture(Entry& entry, codecs::Reads reads);

/// The mask of a derived entry, usable in the further work of `stream`, the current one. Takes the
/// entry's lock. @pre the entry has one (Plan::mask)
const std::byte* lent_mask(Entry& entry, const c10::Stream& stream);

/// Enqueues a function of values that were decoded from `source`, without its bias, on `stream`,
/// the current one. Takes the source's lock. @param rows, x, y As of codecs::cuda
/// @return false when it could not be enqueued; `y` may then hold garbage
/// @throws c10::Error when there is no memory
/// @pre even_errors(source) when `x` was decoded
bool apply_without_bias(Entry& source, codecs::Smooth function, codecs::ElementType type,
                        const codecs::cuda::Rows& rows, const void* x, void* y,
                        const c10::Stream& stream);

/// Whether decoding has to copy back from the host first. @pre the entry's mutex is held
bool needs_fetch(const Entry& entry, codecs::Reads reads);

/// Makes a decoded storage usable in `reader`'s further work.
void hand_over(Entry& entry, const c10::Storage& decoded, codecs::Reads reads,
               const c10::Stream& reader);

/// Tells the allocator that `reader` reads the memory: when that is freed, the allocator waits for
/// the work that `reader` has by then, or its stand_in().
void record_use(const c10::DataPtr& memory, const c10::Stream& reader);

/// Makes memory that is valid in the order of `valid_in` usable in `reader`'s further work.
void make_usable(const c10::Stream& valid_in, const c10::DataPtr& memory,
                 const c10::Stream& reader);

/// Enqueues encoding and decoding `values`, which are valid in `valid_in`, on the current stream.
/// @return the decoded values; null when there is no memory or a kernel could not be launched
c10::Storage round_trip(const c10::Storage& values, const Plan::Candidate& candidate,
                        const codecs::RandomKey& key, const c10::Stream& valid_in);

/// Copies device memory to the host, behind `stream`'s work so far, and waits for the copy.
/// @return null when there is no memory, the copy fails, or the calling thread captures a graph
std::unique_ptr<std::byte[]> host_copy(const void* memory, std::size_t bytes,
                                       const c10::Stream& stream);

}  // namespace cinch::hooks
