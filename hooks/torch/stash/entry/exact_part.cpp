// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/exact_part.h"

#include <cstring>

#include "policy/adapting/part.h"

namespace cinch::hooks {
namespace {

constexpr std::size_t size = policy::piece_bytes;

// SplitMix64.
std::uint64_t mixed(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

ExactPart::ExactPart(std::size_t raw_bytes, std::size_t kept_bytes, std::uint32_t id) noexcept
    : raw_bytes_(raw_bytes), pieces_(kept_bytes / size), id_(id) {}

double ExactPart::share() const noexcept {
  return static_cast<double>(pieces_ * size) / static_cast<double>(raw_bytes_);
}

std::size_t ExactPart::place(std::size_t piece) const noexcept {
  const std::size_t all = raw_bytes_ / size;
  const std::size_t first = piece * all / pieces_;
  const std::size_t end = (piece + 1) * all / pieces_;
  return (first + mixed(std::uint64_t{id_} << 32 | piece) % (end - first)) * size;
}

void ExactPart::take(const void* whole, std::span<std::byte> part) const noexcept {
  const auto* from = static_cast<const std::byte*>(whole);
  for (std::size_t i = 0; i < pieces_; ++i) {
    std::memcpy(part.data() + i * size, from + place(i), size);
  }
}

void ExactPart::put(std::span<const std::byte> part, void* whole) const noexcept {
  auto* to = static_cast<std::byte*>(whole);
  for (std::size_t i = 0; i < pieces_; ++i) {
    std::memcpy(to + place(i), part.data() + i * size, size);
  }
}

}  // namespace cinch::hooks
