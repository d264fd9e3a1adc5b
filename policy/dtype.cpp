// SPDX-License-Identifier: Apache-2.0
#include "policy/dtype.h"

namespace cinch::policy {
namespace {

using codecs::ElementType;

struct ComplexRow {
  ElementType of_parts;
  std::string_view name;
};

constexpr ComplexRow complex_types[] = {{ElementType::float16, "complex32"},
                                        {ElementType::float32, "complex64"},
                                        {ElementType::float64, "complex128"}};

}  // namespace

std::string_view name_of(Dtype dtype) noexcept {
  if (!dtype.is_complex) return codecs::type_name(dtype.type);
  for (const ComplexRow& row : complex_types) {
    if (row.of_parts == dtype.type) return row.name;
  }
  return codecs::type_name(ElementType::other);
}

std::optional<Dtype> dtype_named(std::string_view name) noexcept {
  for (const ComplexRow& row : complex_types) {
    if (row.name == name) return Dtype{row.of_parts, true};
  }
  if (const auto type = codecs::type_named(name)) return Dtype{*type};
  return std::nullopt;
}

}  // namespace cinch::policy
