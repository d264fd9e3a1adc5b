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

/// A stream that lives as long as the process, and whose further work follows the work that
/// `stream`, the current one, has by now: `stream` itself, unless the program made it
/// (ExternalStream) and may destroy it. CUDA tells nobody of that, and a destroyed stream's handle
/// must not be used.
c10::Stream lasting(const c10::Stream& stream);

}  // namespace cinch::hooks
