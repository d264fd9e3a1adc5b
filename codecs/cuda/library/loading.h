// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::codecs::cuda {

/// While one exists, the calling thread's launches load their kernels onto the current device
/// instead of launching them. So a codec's encode and decode name the kernels to load: see load.h.
class Loading {
 public:
  Loading() noexcept { wanted_ = true; }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  ~Loading() { wanted_ = false; }

  static bool wanted() noexcept { return wanted_; }

 private:
  static inline thread_local bool wanted_ = false;
};

}  // namespace cinch::codecs::cuda
