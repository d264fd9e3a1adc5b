// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "codecs/cuda/library/library.h"

namespace cinch::hooks {

/// Work of a stream, and the event behind it. Readers on other streams wait for the event, or,
/// without one, for all work that the stream has by then.
///
/// Events come from a pool: CUDA takes longer to make one than to record it. An event goes back
/// when its last holder lets go of it, whether or not it has happened; nobody's wait for it is
/// lost. The calls make contexts on no device but the stream's.
struct StreamWork {
  c10::Stream stream;
  std::shared_ptr<c10::Event> done;

  /// Makes `reader`'s further work wait for this. The host does not wait.
  void block(const c10::Stream& reader) const;
  /// How far the device is with it. Doesn't wait. @pre done is set
  codecs::cuda::Progress progress() const noexcept;
  bool happened() const noexcept { return progress() == codecs::cuda::Progress::done; }
  bool is_under_way() const noexcept { return progress() == codecs::cuda::Progress::pending; }
  /// The host waits for this. The calling thread may be capturing another stream.
  void wait_on_host() const;
};

/// The work of `stream` so far, with an event.
StreamWork work_of(const c10::Stream& stream);

/// The same, without an event if `reader` is `stream`: its order suffices there.
StreamWork work_beside(const c10::Stream& stream, const c10::Stream& reader);

}  // namespace cinch::hooks
