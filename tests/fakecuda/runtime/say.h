// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fakecuda {

/// Prints one line "fakecuda: …" on stderr.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);

/// `say`, and counts a fault: a program used a function that the fake does not represent, or did
/// something that would break it on a real device.
[[gnu::format(printf, 1, 2)]] void fault(const char* format, ...);

}  // namespace fakecuda
