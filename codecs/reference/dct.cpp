// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/dct.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "codecs/layout.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

using Matrix = std::array<float, kDctBlock>;             ///< position 8 * row + column
using BlockCodes = std::array<std::int32_t, kDctBlock>;  ///< q by position 8 * v + u

Matrix coefficients(const Matrix& x) {
  Matrix c = x;
  for (int j = 0; j < 8; ++j) dct8(&c[j], 8);      // along the height
  for (int u = 0; u < 8; ++u) dct8(&c[8 * u], 1);  // along the width: (u, v)
  Matrix transposed;
  for (int u = 0; u < 8; ++u) {
    for (int v = 0; v < 8; ++v) transposed[8 * v + u] = c[8 * u + v];
  }
  return transposed;
}

/// Decodes codes to values of the element's type.
Matrix decoded(const BlockCodes& q, float step, ElementType type) {
  Matrix c;
  for (int u = 0; u < 8; ++u) {
    for (int v = 0; v < 8; ++v) c[8 * u + v] = static_cast<float>(q[8 * v + u]) * step;
  }
  for (int u = 0; u < 8; ++u) dct8_inverse(&c[8 * u], 1);
  for (int j = 0; j < 8; ++j) dct8_inverse(&c[j], 8);
  for (float& y : c) y = value_of(type, bits_of(type, y));
  return c;
}

/// The parts of a chunk.
struct Parts {
  std::vector<std::byte> forms, dcs, rows, columns, codes;
};

void append(std::vector<std::byte>& to, const void* bytes, std::size_t size) {
  const auto* const first = static_cast<const std::byte*>(bytes);
  to.insert(to.end(), first, first + size);
}

/// Appends codes of `width` bits, starting at a whole byte.
void append_codes(std::vector<std::byte>& to, const std::vector<std::uint32_t>& codes, int width) {
  std::vector<std::byte> stream(bytes_for_bits(std::int64_t(codes.size()) * width));
  std::int64_t position = 0;
  for (const std::uint32_t code : codes) {
    put_bits(stream, position, width, code);
    position += width;
  }
  append(to, stream.data(), stream.size());
}

/// Reads bytes front to back. `take` returns the next ones, or none when there are too few.
struct Reader {
  std::span<const std::byte> rest;

  std::span<const std::byte> take(std::int64_t size) {
    if (size > std::int64_t(rest.size())) return {};
    const auto taken = rest.first(static_cast<std::size_t>(size));
    rest = rest.subspan(static_cast<std::size_t>(size));
    return taken;
  }
};

class DctReference final : public DctCodec {
 public:
  using DctCodec::DctCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor /*parallel*/) const override try {
    const DctGeometry geometry(what.layout);
    std::int64_t at = payload(geometry);
    for (std::int64_t chunk = 0; chunk < geometry.chunks(); ++chunk) {
      Parts parts;
      const std::int64_t end = std::min((chunk + 1) * kDctChunk, geometry.blocks());
      for (std::int64_t b = chunk * kDctChunk; b < end; ++b) {
        encode_block(what, geometry, geometry.block(b), source, parts);
      }
      const std::int64_t begin = at;
      for (const auto* part :
           {&parts.forms, &parts.dcs, &parts.rows, &parts.columns, &parts.codes}) {
        std::copy(part->begin(), part->end(), out.begin() + at);
        at += std::int64_t(part->size());
      }
      const auto size = static_cast<std::uint16_t>(at - begin);
      std::memcpy(out.data() + kDctHeaderBytes + 2 * chunk, &size, 2);
    }
    write_header(what, at, out.data());
    return {true, static_cast<std::size_t>(at)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    const std::int64_t size = read_header(what, in, reads);
    if (size < 0) return false;
    const DctGeometry geometry(what.layout);
    Reader chunks{in.first(static_cast<std::size_t>(size)).subspan(payload(geometry))};
    for (std::int64_t chunk = 0; chunk < geometry.chunks(); ++chunk) {
      std::uint16_t bytes;
      std::memcpy(&bytes, in.data() + kDctHeaderBytes + 2 * chunk, 2);
      const std::span<const std::byte> data = chunks.take(bytes);
      if (data.size() != bytes || !decode_chunk(what, geometry, chunk, data, target)) return false;
    }
    return chunks.rest.empty();
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  void encode_block(const Description& what, const DctGeometry& geometry,
                    const DctGeometry::Block& block, const void* source, Parts& parts) const {
    const std::size_t size = element_size(what.type);
    Matrix x;
    bool good = true;
    for (int k = 0; k < kDctBlock; ++k) {
      const std::int64_t offset = block.offset + geometry.offset_in(block, k / 8, k % 8);
      x[k] = value_of(what.type, load_bits(source, offset, size));
      good &= std::fabs(x[k]) <= kAffineMaxMagnitude;
    }
    const std::int64_t raw = block.elements() * std::int64_t(size);
    if (good) {
      const Matrix c = coefficients(x);
      BlockCodes q;
      for (int level = 0; level < kDctLevels; ++level) {
        if (!quantize(c, x, level, what.type, q)) continue;
        if (write_block(q, level, raw, parts)) return;
        break;
      }
    }
    parts.forms.push_back(std::byte{kDctRawForm});
    for (std::int64_t i = 0; i < block.rows; ++i) {
      for (std::int64_t j = 0; j < block.columns; ++j) {
        const std::int64_t offset =
            block.offset + i * geometry.row_stride() + j * geometry.column_stride();
        const std::uint64_t bits = load_bits(source, offset, size);
        append(parts.codes, &bits, size);
      }
    }
  }

  /// False when `level` does not hold the bound.
  bool quantize(const Matrix& c, const Matrix& x, int level, ElementType type,
                BlockCodes& q) const {
    const float s = step(level);
    const float scale = 1.0F / s;
    for (int k = 0; k < kDctBlock; ++k) {
      const float rounded = std::rint(c[k] * scale);
      if (!(std::fabs(rounded) <= kDctMaxCode)) return false;
      q[k] = static_cast<std::int32_t>(rounded);
    }
    const Matrix y = decoded(q, s, type);
    for (int k = 0; k < kDctBlock; ++k) {
      if (!(std::fabs(x[k] - y[k]) < parameters().error_bound)) return false;
    }
    return true;
  }

  /// False when raw is no larger.
  bool write_block(const BlockCodes& q, int level, std::int64_t raw, Parts& parts) const {
    std::vector<std::uint32_t> sparse, dense;
    std::vector<std::byte> columns;
    unsigned rows = 0;
    std::uint32_t all_sparse = 0, all_dense = 0;
    for (int v = 0; v < 8; ++v) {
      unsigned row = 0;
      for (int u = 0; u < 8; ++u) {
        if (8 * v + u == 0) continue;
        const std::uint32_t z = dct_zigzag(q[8 * v + u]);
        dense.push_back(z);
        all_dense |= z;
        if (z == 0) continue;
        sparse.push_back(z - 1);
        all_sparse |= z - 1;
        row |= 1U << u;
      }
      if (row == 0) continue;
      rows |= 1U << v;
      columns.push_back(static_cast<std::byte>(row));
    }
    const DctForm form = dct_form(level, q[0], int(sparse.size()), int(columns.size()), all_sparse,
                                  all_dense, parameters().zero_value, raw);
    if (form.form == kDctRawForm) return false;
    append(parts.forms, &form.form, 1);
    if (form.form == kDctZeroForm) return true;
    append(parts.dcs, &q[0], 2);
    const int width = DctForm::width(form.form);
    if (width == 0) return true;
    if (DctForm::is_dense(form.form)) {
      append_codes(parts.codes, dense, width);
      return true;
    }
    append(parts.rows, &rows, 1);
    append(parts.columns, columns.data(), columns.size());
    append_codes(parts.codes, sparse, width);
    return true;
  }

  bool decode_chunk(const Description& what, const DctGeometry& geometry, std::int64_t chunk,
                    std::span<const std::byte> data, void* target) const {
    const std::int64_t first = chunk * kDctChunk;
    const std::int64_t count = std::min(kDctChunk, geometry.blocks() - first);
    // Count the items of each part.
    std::int64_t dc_count = 0, sparse_count = 0, column_count = 0;
    if (std::int64_t(data.size()) < count) return false;
    const auto form_of = [&](std::int64_t b) { return std::to_integer<std::uint8_t>(data[b]); };
    for (std::int64_t b = 0; b < count; ++b) {
      if (!DctForm::is_valid(form_of(b))) return false;
      dc_count += DctForm::has_dc(form_of(b));
      sparse_count += DctForm::is_sparse(form_of(b));
    }
    Reader rest{data.subspan(count)};
    Reader dcs{rest.take(2 * dc_count)};
    Reader rows{rest.take(sparse_count)};
    if (std::int64_t(dcs.rest.size()) != 2 * dc_count ||
        std::int64_t(rows.rest.size()) != sparse_count) {
      return false;
    }
    for (const std::byte row : rows.rest)
      column_count += std::popcount(std::to_integer<unsigned>(row));
    Reader columns{rest.take(column_count)};
    if (std::int64_t(columns.rest.size()) != column_count) return false;

    for (std::int64_t b = 0; b < count; ++b) {
      const std::uint8_t form = form_of(b);
      const DctGeometry::Block block = geometry.block(first + b);
      if (form == kDctRawForm) {
        const std::int64_t size = block.elements() * std::int64_t(element_size(what.type));
        const auto bits = rest.take(size);
        if (std::int64_t(bits.size()) != size) return false;
        store(what, geometry, block, target, [&](std::int64_t i, std::int64_t j) {
          return load_bits(bits.data(), i * block.columns + j, element_size(what.type));
        });
        continue;
      }
      BlockCodes q = {};
      if (form != kDctZeroForm) {
        std::int16_t dc;
        std::memcpy(&dc, dcs.take(2).data(), 2);
        q[0] = dc;
        if (!read_codes(form, rows, columns, rest, q)) return false;
      }
      const Matrix y = decoded(q, step(DctForm::level(form)), what.type);
      store(what, geometry, block, target, [&](std::int64_t i, std::int64_t j) {
        // A stretch has one row of up to 64 elements.
        return bits_of(what.type, y[8 * i + j]);
      });
    }
    return rest.rest.empty();
  }

  static bool read_codes(std::uint8_t form, Reader& rows, Reader& columns, Reader& rest,
                         BlockCodes& q) {
    const int width = DctForm::width(form);
    if (width == 0) return true;
    std::array<bool, kDctBlock> held = {};
    std::int64_t held_count = 0;
    if (DctForm::is_dense(form)) {
      std::fill(held.begin() + 1, held.end(), true);
      held_count = kDctBlock - 1;
    } else {
      const auto row = std::to_integer<unsigned>(rows.take(1)[0]);
      for (int v = 0; v < 8; ++v) {
        if ((row >> v & 1U) == 0) continue;
        const auto column = std::to_integer<unsigned>(columns.take(1)[0]);
        // DC has no bit.
        if (v == 0 && (column & 1U) != 0) return false;
        for (int u = 0; u < 8; ++u) {
          held[8 * v + u] = (column >> u & 1U) != 0;
          held_count += held[8 * v + u];
        }
      }
    }
    const std::int64_t size = bytes_for_bits(held_count * width);
    const auto codes = rest.take(size);
    if (std::int64_t(codes.size()) != size) return false;
    std::int64_t position = 0;
    for (int k = 0; k < kDctBlock; ++k) {
      if (!held[k]) continue;
      const std::uint32_t code = get_bits(codes, position, width);
      q[k] = dct_unzigzag(DctForm::is_dense(form) ? code : code + 1);
      position += width;
    }
    return true;
  }

  /// Stores `bits(i, j)` for the elements of a block that exist.
  template <typename F>
  static void store(const Description& what, const DctGeometry& geometry,
                    const DctGeometry::Block& block, void* target, const F& bits) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      for (std::int64_t j = 0; j < block.columns; ++j) {
        store_bits(target, block.offset + i * geometry.row_stride() + j * geometry.column_stride(),
                   element_size(what.type), bits(i, j));
      }
    }
  }
};

}  // namespace

std::shared_ptr<const Codec> make_dct_reference(const DctParameters& parameters) {
  return std::make_shared<DctReference>(parameters);
}

}  // namespace cinch::codecs
