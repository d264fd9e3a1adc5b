// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/without_zero_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "codecs/layout.h"

namespace cinch::codecs {
namespace {

std::size_t padded(std::size_t bytes) noexcept {
  constexpr auto to = static_cast<std::size_t>(kWithoutZeroRowsAlignment);
  return (bytes + to - 1) / to * to;
}

std::int64_t rows_of(const Description& what) noexcept {
  return what.layout.elements() / kZeroRow;
}

std::size_t mask_bytes(std::int64_t rows) noexcept {
  return padded(static_cast<std::size_t>(bytes_for_bits(rows)));
}

/// A run of `rows` rows.
Description run_of(const Description& what, std::int64_t rows) noexcept {
  return {.type = what.type, .layout = PlaneLayout::rows(rows * kZeroRow, kZeroRow)};
}

bool is_zero(const std::byte* row, std::size_t bytes) noexcept {
  // A row is zero if its first byte is, and each equals the one before it.
  return row[0] == std::byte{0} && std::memcmp(row, row + 1, bytes - 1) == 0;
}

bool is_held(const std::byte* mask, std::int64_t row) noexcept {
  return (std::to_integer<unsigned>(mask[row / 8]) >> (row % 8) & 1U) != 0;
}

/// Calls f(first, end) for each run of held rows until it returns false. @return whether none did
template <typename F>
bool for_each_run(const std::byte* mask, std::int64_t rows, const F& f) {
  for (std::int64_t first = 0; first < rows;) {
    if (!is_held(mask, first)) {
      ++first;
      continue;
    }
    std::int64_t end = first + 1;
    while (end < rows && is_held(mask, end)) ++end;
    if (!f(first, end)) return false;
    first = end;
  }
  return true;
}

class WithoutZeroRows final : public Codec {
 public:
  explicit WithoutZeroRows(std::shared_ptr<const Codec> inner) noexcept
      : inner_(std::move(inner)) {}

  std::string_view name() const noexcept override { return inner_->name(); }
  Reads restores() const noexcept override { return Reads::values; }

  bool accepts(const Description& what) const noexcept override {
    const std::int64_t elements = what.layout.elements();
    return what.plane_bits.empty() && what.layout.is_contiguous() && elements > 0 &&
           elements % kZeroRow == 0 && inner_->accepts(run_of(what, elements / kZeroRow));
  }

  /// A run takes at most what its rows take one by one.
  std::size_t encoded_bytes(const Description& what) const noexcept override {
    const std::int64_t rows = rows_of(what);
    return mask_bytes(rows) +
           static_cast<std::size_t>(rows) * padded(inner_->encoded_bytes(run_of(what, 1)));
  }

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const std::int64_t rows = rows_of(what);
    const std::size_t row = kZeroRow * element_size(what.type);
    const auto* from = static_cast<const std::byte*>(source);
    const auto mask = out.first(mask_bytes(rows));
    std::ranges::fill(mask, std::byte{0});
    for_range(parallel, rows, 64, [&](std::int64_t k, std::int64_t end) {
      for (; k < end; ++k) {
        if (!is_zero(from + static_cast<std::size_t>(k) * row, row)) {
          mask[static_cast<std::size_t>(k / 8)] |= std::byte{1} << static_cast<int>(k % 8);
        }
      }
    });
    Encoded all = {true, mask.size()};
    for_each_run(mask.data(), rows, [&](std::int64_t first, std::int64_t end) {
      const Description run = run_of(what, end - first);
      const auto room = out.subspan(all.bytes, inner_->encoded_bytes(run));
      const Encoded one =
          inner_->encode(run, from + static_cast<std::size_t>(first) * row, room, key, parallel);
      all.representable = all.representable && one.representable;
      const std::size_t end_of_run = all.bytes + padded(one.bytes);
      std::ranges::fill(out.subspan(all.bytes + one.bytes, padded(one.bytes) - one.bytes),
                        std::byte{0});
      all.bytes = end_of_run;
      key.step += std::uint64_t{1} << 48;
      return true;
    });
    return all;
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (reads != Reads::values || !accepts(what)) return false;
    const std::int64_t rows = rows_of(what);
    const std::size_t row = kZeroRow * element_size(what.type);
    if (in.size() < mask_bytes(rows)) return false;
    auto* const to = static_cast<std::byte*>(target);
    std::int64_t done = 0;
    std::size_t at = mask_bytes(rows);
    const auto clear_up_to = [&](std::int64_t end) {
      std::memset(to + static_cast<std::size_t>(done) * row, 0,
                  static_cast<std::size_t>(end - done) * row);
    };
    const bool good = for_each_run(in.data(), rows, [&](std::int64_t first, std::int64_t end) {
      clear_up_to(first);
      done = end;
      const Description run = run_of(what, end - first);
      const std::size_t bytes = inner_->encoded_bytes(run);
      if (in.size() - at < bytes) return false;
      std::byte* const begin = to + static_cast<std::size_t>(first) * row;
      if (!inner_->decode(run, in.subspan(at, bytes), begin, reads, parallel)) return false;
      at += std::min(padded(bytes), in.size() - at);
      return true;
    });
    clear_up_to(rows);
    return good;
  }

 private:
  std::shared_ptr<const Codec> inner_;
};

}  // namespace

std::shared_ptr<const Codec> make_without_zero_rows(std::shared_ptr<const Codec> inner) {
  return std::make_shared<WithoutZeroRows>(std::move(inner));
}

}  // namespace cinch::codecs
