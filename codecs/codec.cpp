// SPDX-License-Identifier: Apache-2.0
#include "codecs/codec.h"

#include <array>

namespace cinch::codecs {

namespace {

struct TypeRow {
  std::string_view name;
  std::size_t size;
};

/// In the order of ElementType.
constexpr std::array<TypeRow, 10> kTypes = {{{"float32", 4},
                                             {"bfloat16", 2},
                                             {"float16", 2},
                                             {"float64", 8},
                                             {"bool", 1},
                                             {"uint8", 1},
                                             {"int16", 2},
                                             {"int32", 4},
                                             {"int64", 8},
                                             {"other", 0}}};
static_assert(kTypes.size() == static_cast<std::size_t>(ElementType::other) + 1);

}  // namespace

std::size_t element_size(ElementType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].size;
}

std::string_view type_name(ElementType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::optional<ElementType> type_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i + 1 < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

bool PlaneLayout::is_contiguous() const noexcept {
  // A stride is never walked along an extent of 1, so it may be anything there.
  std::int64_t expected = 1;
  for (int axis = 2; axis >= 0; --axis) {
    if (extent[axis] != 1 && stride[axis] != expected) return false;
    expected *= extent[axis];
  }
  if (inner != 1 && inner_stride != expected) return false;
  return outer == 1 || outer_stride == expected * inner;
}

PlaneLayout PlaneLayout::rows(std::int64_t n, std::int64_t row) noexcept {
  PlaneLayout layout;
  layout.outer = n / row;
  layout.outer_stride = row;
  layout.extent = {1, 1, row};
  return layout;
}

Encoded Codec::encode_into(const Description& what, const void* source, const Room& room,
                           RandomKey key, ParallelFor parallel) const {
  const std::size_t bytes = encoded_bytes(what);
  std::byte* const out = room(bytes);
  if (out == nullptr && bytes != 0) return {};
  return encode(what, source, {out, bytes}, key, parallel);
}

bool Codec::decode_with(const Description& what, std::span<const std::byte> in, void* target,
                        const Epilogue& epilogue, ParallelFor parallel) const {
  constexpr std::int64_t kGrain = 32768;
  if (!decode(what, in, target, Reads::values, parallel)) return false;
  for_range(parallel, what.layout.elements(), kGrain, epilogue);
  return true;
}

void serial_for(std::int64_t n, std::int64_t /*grain*/, ParallelForBody body, void* argument) {
  if (n > 0) body(argument, 0, n);
}

}  // namespace cinch::codecs
