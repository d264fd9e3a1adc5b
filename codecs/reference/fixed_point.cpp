// SPDX-License-Identifier: Apache-2.0
#include "codecs/formats/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "codecs/layout.h"
#include "codecs/philox.h"
#include "codecs/reference/elements.h"

namespace cinch::codecs {
namespace {

using namespace reference;

/// Logical index of element `m` of channel `c`.
std::int64_t index_of(const PlaneLayout& layout, std::int64_t c, std::int64_t m) {
  const std::int64_t plane = m / layout.plane_size() * layout.inner + c;
  return plane * layout.plane_size() + m % layout.plane_size();
}

/// A channel's elements and format.
struct Channel {
  std::vector<std::uint64_t> bits;
  std::vector<float> values;
  std::vector<std::int64_t> nonzero;  ///< number of non-zero elements by chunk
  ChannelFormat format;
};

class FixedPointReference final : public FixedPointCodec {
 public:
  using FixedPointCodec::FixedPointCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor /*parallel*/) const override try {
    const std::int64_t channels = what.layout.channels();
    std::vector<std::byte> counts;
    std::vector<std::byte> streams;
    for (std::int64_t c = 0; c < channels; ++c) {
      const Channel channel = read_channel(what, source, c);
      write_entry(channel.format, out.data() + kFixedPointHeaderBytes + c * kFixedPointEntryBytes);
      switch (channel.format.form) {
        case ChannelForm::raw:
          append_raw(channel, element_size(what.type), streams);
          break;
        case ChannelForm::codes:
          append_codes(what, channel, c, 0, channel_elements(what.layout), key, false, streams);
          break;
        case ChannelForm::zero_value:
          append_zero_value(what, channel, c, key, counts, streams);
      }
    }
    const std::int64_t counts_at = kFixedPointHeaderBytes + channels * kFixedPointEntryBytes;
    const auto streams_at = counts_at + static_cast<std::int64_t>(counts.size());
    const auto size = streams_at + static_cast<std::int64_t>(streams.size());
    write_header(what, size, out.data());
    std::copy(counts.begin(), counts.end(), out.begin() + counts_at);
    std::copy(streams.begin(), streams.end(), out.begin() + streams_at);
    return {true, static_cast<std::size_t>(size)};
  } catch (const std::bad_alloc&) {
    return {};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor /*parallel*/) const override try {
    const std::int64_t size = read_header(what, in, reads);
    if (size < 0) return false;
    in = in.first(static_cast<std::size_t>(size));
    const std::int64_t channels = what.layout.channels();
    const std::int64_t chunks = channel_chunks(channel_elements(what.layout));
    std::vector<ChannelFormat> formats(channels);
    std::int64_t counts_at = kFixedPointHeaderBytes + channels * kFixedPointEntryBytes;
    std::int64_t at = counts_at;
    for (std::int64_t c = 0; c < channels; ++c) {
      if (!read_entry(in.data() + kFixedPointHeaderBytes + c * kFixedPointEntryBytes, formats[c])) {
        return false;
      }
      if (formats[c].form == ChannelForm::zero_value) at += 2 * chunks;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t k = 0; k < chunks; ++k) {
        std::uint16_t nonzero = 0;
        if (formats[c].form == ChannelForm::zero_value) {
          if (counts_at + 2 > size) return false;
          std::memcpy(&nonzero, in.data() + counts_at, 2);
          counts_at += 2;
        }
        const std::int64_t bytes = chunk_bytes(what, formats[c], k, nonzero);
        if (bytes < 0 || bytes > size - at) return false;
        if (!decode_chunk(what, formats[c], c, k, nonzero,
                          in.subspan(static_cast<std::size_t>(at), bytes), target)) {
          return false;
        }
        at += bytes;
      }
    }
    return at == size;
  } catch (const std::bad_alloc&) {
    return false;
  }

 private:
  Channel read_channel(const Description& what, const void* source, std::int64_t c) const {
    const std::int64_t elements = channel_elements(what.layout);
    const std::size_t size = element_size(what.type);
    Channel channel;
    channel.nonzero.resize(channel_chunks(elements));
    float min = 0.0F, max = 0.0F;
    bool good = true;
    for (std::int64_t m = 0; m < elements; ++m) {
      const std::uint64_t bits =
          load_bits(source, offset_of(what.layout, index_of(what.layout, c, m)), size);
      const float x = value_of(what.type, bits);
      channel.bits.push_back(bits);
      channel.values.push_back(x);
      min = m == 0 ? x : std::min(min, x);
      max = m == 0 ? x : std::max(max, x);
      good &= std::fabs(x) <= kAffineMaxMagnitude;
      channel.nonzero[m / kFixedPointChunk] += x != 0.0F;
    }
    channel.format = fit_channel(min, max, good, bound(what, c), what.type);
    const int bits = channel.format.bits;
    std::int64_t zero_value = -1;
    if (parameters().zero_value) {
      zero_value = 2 * std::int64_t(channel.nonzero.size());
      for (std::size_t k = 0; k < channel.nonzero.size(); ++k) {
        zero_value +=
            zero_value_bytes(chunk_elements(elements, std::int64_t(k)), channel.nonzero[k], bits);
      }
    }
    channel.format.form =
        choose_form(bits, elements * std::int64_t(size), codes_bytes(elements, bits), zero_value);
    return channel;
  }

  static void append_raw(const Channel& channel, std::size_t size,
                         std::vector<std::byte>& streams) {
    for (const std::uint64_t bits : channel.bits) {
      streams.resize(streams.size() + size);
      std::memcpy(&streams[streams.size() - size], &bits, size);
    }
  }

  /// Appends codes of elements [begin, end), or of only the non-zero ones.
  static void append_codes(const Description& what, const Channel& channel, std::int64_t c,
                           std::int64_t begin, std::int64_t end, RandomKey key, bool nonzero_only,
                           std::vector<std::byte>& streams) {
    const int bits = channel.format.bits;
    const float lo = float_of_bf16(channel.format.range.lo);
    const float step = float_of_bf16(channel.format.range.step);
    std::vector<std::byte> stream(codes_bytes(end - begin, bits));
    std::int64_t position = 0;
    for (std::int64_t m = begin; m < end; ++m) {
      const float x = channel.values[m];
      if (nonzero_only && x == 0.0F) continue;
      const std::uint32_t draw =
          philox::draw16(key, static_cast<std::uint64_t>(index_of(what.layout, c, m)));
      put_bits(stream, position, bits,
               bits <= 8 ? affine_code(x, lo, affine_scale(channel.format.range), bits, draw)
                         : affine_code_wide(x, lo, step, bits, draw));
      position += bits;
    }
    stream.resize(bytes_for_bits(position));
    streams.insert(streams.end(), stream.begin(), stream.end());
  }

  static void append_zero_value(const Description& what, const Channel& channel, std::int64_t c,
                                RandomKey key, std::vector<std::byte>& counts,
                                std::vector<std::byte>& streams) {
    const auto elements = static_cast<std::int64_t>(channel.values.size());
    for (std::size_t k = 0; k < channel.nonzero.size(); ++k) {
      const auto count = static_cast<std::uint16_t>(channel.nonzero[k]);
      counts.resize(counts.size() + 2);
      std::memcpy(&counts[counts.size() - 2], &count, 2);

      const std::int64_t begin = std::int64_t(k) * kFixedPointChunk;
      const std::int64_t end = begin + chunk_elements(elements, std::int64_t(k));
      std::vector<std::byte> mask(bytes_for_bits(end - begin));
      for (std::int64_t m = begin; m < end; ++m) {
        put_bits(mask, m - begin, 1, channel.values[m] != 0.0F);
      }
      streams.insert(streams.end(), mask.begin(), mask.end());
      append_codes(what, channel, c, begin, end, key, true, streams);
    }
  }

  /// Bytes of chunk `k` of a channel, or -1 when `nonzero` exceeds the chunk's elements.
  static std::int64_t chunk_bytes(const Description& what, const ChannelFormat& format,
                                  std::int64_t k, std::int64_t nonzero) {
    const std::int64_t elements = chunk_elements(channel_elements(what.layout), k);
    switch (format.form) {
      case ChannelForm::raw:
        return elements * std::int64_t(element_size(what.type));
      case ChannelForm::codes:
        return codes_bytes(elements, format.bits);
      default:
        return nonzero <= elements ? zero_value_bytes(elements, nonzero, format.bits) : -1;
    }
  }

  static bool decode_chunk(const Description& what, const ChannelFormat& format, std::int64_t c,
                           std::int64_t k, std::int64_t nonzero, std::span<const std::byte> in,
                           void* target) {
    const std::size_t size = element_size(what.type);
    const std::int64_t begin = k * kFixedPointChunk;
    const std::int64_t count = chunk_elements(channel_elements(what.layout), k);
    const float lo = float_of_bf16(format.range.lo);
    const float step = float_of_bf16(format.range.step);
    const auto store = [&](std::int64_t i, std::uint64_t bits) {
      store_bits(target, offset_of(what.layout, index_of(what.layout, c, begin + i)), size, bits);
    };
    const auto value_at = [&](std::span<const std::byte> codes, std::int64_t i) {
      return bits_of(what.type,
                     affine_value(lo, step, get_bits(codes, i * format.bits, format.bits)));
    };
    if (format.form != ChannelForm::zero_value) {
      for (std::int64_t i = 0; i < count; ++i) {
        store(i, format.form == ChannelForm::raw ? load_bits(in.data(), i, size) : value_at(in, i));
      }
      return true;
    }
    const std::span<const std::byte> codes = in.subspan(bytes_for_bits(count));
    std::int64_t seen = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (get_bits(in, i, 1) == 0) {
        store(i, 0);
      } else if (seen < nonzero) {
        store(i, value_at(codes, seen++));
      } else {
        return false;
      }
    }
    return seen == nonzero;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_fixed_point_reference(const FixedPointParameters& parameters) {
  return std::make_shared<FixedPointReference>(parameters);
}

}  // namespace cinch::codecs
