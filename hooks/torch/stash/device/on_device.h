// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>

#include <c10/core/Allocator.h>
#include <c10/core/Event.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include "codecs/codec.h"
#include "hooks/torch/process/fork.h"
#include "hooks/torch/stash/device/in_flight.h"
#include "hooks/torch/stash/device/pinned_pool.h"
#include "hooks/torch/stash/plan.h"

namespace cinch::hooks {

class EntryQueue;
class EncodeOutcome;
struct Entry;

/// Work of a stream, and the event behind it. Readers on other streams wait for the event; without
/// one they wait for all that the stream has been given so far.
struct StreamWork {
  c10::Stream stream;
  std::shared_ptr<c10::Event> done;

  /// Makes `reader`'s further work wait for this. The host does not wait.
  void block(const c10::Stream& reader) const;
  /// The host waits for it, though the calling thread may be capturing another stream.
  void wait_on_host() const;
};

/// What an entry whose storage lies on a CUDA device holds besides. Belongs to the entry's mutex,
/// but for what is said to belong to the stash's lock.
struct OnDevice {
  explicit OnDevice(const c10::Stream& stream) : saved_on(stream) {}

  std::size_t index() const noexcept { return static_cast<std::size_t>(saved_on.device_index()); }

  /// In a forked child: CUDA does not work there, and to destroy as much as an event would end it.
  bool is_a_parents() const noexcept { return made_after_ != forks_before(); }

  // The stash's lock's.
  c10::Stream
      saved_on;  ///< whose work the values are valid in: the current stream of the last save
  EntryQueue* queue = nullptr;      ///< of settled entries that the entry is in
  std::size_t offloaded_bytes = 0;  ///< see Entry::offloaded_bytes
  bool fetched = false;             ///< counted among what is fetched from the host ahead

  // The entry's mutex's; once it is settled they change under both locks.
  /// Of an encoding whose size only the data decide: what it will turn out to have come to, and
  /// what was encoded, which is there until that is known. Null and empty: known.
  std::shared_ptr<const EncodeOutcome> outcome;
  c10::Storage source;
  std::size_t exact_bytes = 0;  ///< of `encoded`, which may be larger; 0: it is not

  // The entry's mutex's.
  c10::DataPtr encoded;
  c10::DataPtr result;  ///< a codecs::cuda::Result; set with `outcome`
  /// Set once `encoded` or, for an entry that is to leave the device, `raw` is valid.
  std::optional<StreamWork> encoding;
  std::array<std::optional<StreamWork>, codecs::kReadsCount> decoding;
  /// What is held, when it has left the device; `encoded` is then set between fetching and
  /// decoding.
  std::unique_ptr<PinnedPool::Piece> on_host;
  std::shared_ptr<const CopyMoment> written;  ///< when it is there

 private:
  unsigned made_after_ = forks_before();
};

/// The work of `stream` so far.
StreamWork work_of(const c10::Stream& stream);

/// The calling thread's current stream of that device.
c10::Stream current_stream(c10::Device device);

/// Cinch's own stream of a device, for the policy's stream "side".
c10::Stream side_stream(c10::Device device);

/// Whether a CUDA graph is recording the calling thread's current stream.
bool is_capturing(c10::Device device);

/// Whether one is recording `stream`.
bool is_capturing(const c10::Stream& stream);

/// Whether the storage's memory is the caching allocator's, which may take it back at any time and
/// keeps work of other streams apart (recordStream).
bool from_device_allocator(const c10::StorageImpl& storage);

/// What encode_on_device allocates in all; rounding and alignment of the allocator's included.
/// @param what with the channels' numbers in host memory, as for encode_on_device
std::size_t bytes_to_encode(const codecs::cuda::DeviceCodec& codec, const codecs::Description& what,
                            std::size_t bound);

/// Enqueues the encoding of entry.raw on `stream`, which is made to wait for the stream that the
/// values are valid in. After it the source may be freed: the allocator knows of the work that
/// still reads it. The host does not wait.
/// Where only the data decide the size, entry.device's outcome is set; the source is the caller's
/// to keep until then.
/// @param outcomes Memory of the host for that
/// @return false when there is no memory for the result or a kernel could not be launched
/// @pre entry.device is set, the candidate has a device codec, the entry's mutex is held
bool encode_on_device(Entry& entry, const Plan::Candidate& candidate, const codecs::RandomKey& key,
                      const c10::Stream& stream, PinnedPool& outcomes);

/// Enqueues the copy of what was encoded, `bytes`, to memory of just that size, in the encoding's
/// stream, and gives the other memory up as of then.
/// @return false when there is no memory, or the stream is captured: all is as it was
/// @pre the entry's mutex is held, state is encoded, and it is not on the host
bool shrink(Entry& entry, std::size_t bytes) noexcept;

/// When what encode_on_device enqueued is done; null where it ran in the stream that the values are
/// valid in, which orders what comes after. @pre it returned true, the entry's mutex is held
std::shared_ptr<const InFlight::Moment> when_encoded(const Entry& entry);

/// Enqueues the decoding on `stream`. As long as nobody knows what the encoding came to, the device
/// itself takes the source where that was of no use. For Reads::nothing and dropped entries the
/// memory's content is undefined; what is on the host is copied back first, if that has not been
/// done.
/// @throws c10::Error when there is no memory
c10::Storage decode_on_device(Entry& entry, codecs::Reads reads, const c10::Stream& stream);

/// The same for a graph that the calling thread's current stream is captured into. All that the
/// graph's work reads is there for as long as the entry is, so that it may be replayed: what is on
/// the host is copied by the graph. The host waits for what other streams have still to do with it,
/// and for the outcome of the encoding.
/// @throws c10::Error when there is no memory
c10::Storage decode_in_capture(Entry& entry, codecs::Reads reads);

/// Whether decoding has to copy back from the host first. @pre the entry's mutex is held
bool needs_fetch(const Entry& entry, codecs::Reads reads);

/// Makes what was decoded usable in `reader`'s further work.
void hand_over(Entry& entry, const c10::Storage& decoded, codecs::Reads reads,
               const c10::Stream& reader);

/// What `values`, valid in `valid_in`'s work, become when they are encoded and decoded: enqueued on
/// the current stream. Null when there is no memory or a kernel could not be launched.
c10::Storage round_trip(const c10::Storage& values, const Plan::Candidate& candidate,
                        const codecs::RandomKey& key, const c10::Stream& valid_in);

/// The storage's bytes as they are after `stream`'s work so far. The host waits for them. Null when
/// there is no memory, the copy fails, or the calling thread captures a graph.
std::unique_ptr<std::byte[]> host_copy(const c10::Storage& storage, std::size_t bytes,
                                       const c10::Stream& stream);

}  // namespace cinch::hooks
