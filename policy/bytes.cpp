// SPDX-License-Identifier: Apache-2.0
#include "policy/bytes.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace cinch::policy {

std::optional<std::uint64_t> bytes_of(const std::string& text) {
  constexpr double largest = 9007199254740991.0;
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const auto end = static_cast<std::size_t>(stop - text.data());
  constexpr std::pair<std::string_view, double> units[] = {
      {"B", 1.0},  {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 0x1p40},
      {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},        {"TB", 1e12}};
  for (const auto& [unit, factor] : units) {
    if (std::string_view(text).substr(end) != unit) continue;
    const double bytes = value * factor;
    if (!(bytes >= 1 && bytes <= largest)) return std::nullopt;
    if (unit == "B" && bytes != std::floor(bytes)) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
  }
  return std::nullopt;
}

}  // namespace cinch::policy
