// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>

namespace cinch::hooks {

/// What a stream of Cinch's own is for.
enum class Own : std::uint8_t {
  side,  ///< encoding and decoding, for the policy's stream "side"
  out,   ///< copies to the host
  in,    ///< copies to the device
};

/// Cinch's own stream of a device. It is made when first asked for, with the lowest priority, and
/// lives as long as the process. PyTorch's pool of 32 is not used, since it hands out each of its
/// streams again, to the program; only if CUDA makes no stream is one of those taken.
c10::Stream own_stream(Own which, c10::Device device);

/// The calling thread's current stream of that device.
c10::Stream current_stream(c10::Device device);

/// Whether a CUDA graph is recording the calling thread's current stream.
bool is_capturing(c10::Device device);

/// Whether a CUDA graph is recording `stream`.
bool is_capturing(const c10::Stream& stream);

/// `stream` itself; or Cinch's side stream, for one that the program made (ExternalStream) and may
/// destroy.
c10::Stream stand_in(const c10::Stream& stream);

/// A stream that lives as long as the process, and whose further work follows the work that
/// `stream`, the current one, has by now: its stand_in(). CUDA tells nobody when a stream is
/// destroyed, and its handle must not be used then.
c10::Stream lasting(const c10::Stream& stream);

}  // namespace cinch::hooks
