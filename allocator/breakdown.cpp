// SPDX-License-Identifier: Apache-2.0
#include "allocator/breakdown.h"

#include <array>
#include <cstdio>

namespace cinch::allocator {

std::string size_text(std::size_t bytes) {
  static constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

std::string Breakdown::text() const {
  std::string text =
      "Of " + size_text(device_total) + ", " + size_text(device_free) + " are free on the device";
  if (limit < device_total) text += " and " + size_text(limit) + " are allowed";
  text += ". Reserved " + size_text(reserved) + ": " + size_text(allocated) + " allocated (" +
          size_text(requested) + " asked for" +
          (stash == 0 ? "" : ", " + size_text(stash) + " the stash's") + "), " + size_text(free) +
          " free (at most " + size_text(largest) + " in one piece), " + size_text(pending) +
          " waiting for other streams";
  if (unmapped != 0) text += ", " + size_text(unmapped) + " unmapped";
  if (stuck != 0) text += ", " + size_text(stuck) + " of addresses that the driver would not unmap";
  char share[16];
  std::snprintf(share, sizeof share, "%.1f", 100 * fragmentation());
  text += "; " + size_text(stitched) + " were moved, " + size_text(pinned) +
          " may not be. Fragmentation " + share + " %.";
  for (const Holder& holder : holders) {
    text += "\n  " + std::to_string(holder.count) + " x " + size_text(holder.bytes);
    if (holder.tag != 0) text += " (tag " + std::to_string(holder.tag) + ")";
  }
  return text;
}

}  // namespace cinch::allocator
