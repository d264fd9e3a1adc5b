// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace fakecuda {

/// Settings from the environment, read once.
struct Settings {
  int devices;            ///< FAKECUDA_DEVICES, 1
  std::size_t memory;     ///< FAKECUDA_MEMORY per device, 4 GiB. Bytes
  int event_delay;        ///< FAKECUDA_EVENT_DELAY, 0. Queries
  const char* schedule;   ///< FAKECUDA_SCHEDULE, "eager"
  const char* shared;     ///< FAKECUDA_SHARED, null: file in which processes count memory together
  bool poison;            ///< FAKECUDA_POISON, 0: fresh and freed device memory is filled
  const char* failures;   ///< FAKECUDA_FAIL, "": "CALL:NTH[:ERROR],…"
  const char* trace;      ///< FAKECUDA_TRACE, null: a file, or "stderr"
  bool skip_unknown;      ///< FAKECUDA_UNKNOWN_KERNELS=skip: unknown kernels silently do nothing
  const char* libraries;  ///< FAKECUDA_LIBRARIES, null: loaded when torch first asks for devices
};

inline constexpr int max_devices = 16;

const Settings& settings();

}  // namespace fakecuda
