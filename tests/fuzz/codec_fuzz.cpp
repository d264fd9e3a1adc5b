// SPDX-License-Identifier: Apache-2.0
// Every codec on hostile bytes and arbitrary data. Whatever is decoded must stay within buffers
// that are exactly as large as they are said to be, which AddressSanitizer sees to, and the engines
// must agree; what was encoded must come back as the codec promises.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "codecs/formats/masks/interval.h"
#include "tests/fuzz/codec_case.h"

namespace cinch::codecs::fuzz {
namespace {

constexpr std::byte kUntouched{0xA5};

/// Calls f with each of Highway's targets that this machine has.
template <class F>
void for_each_target(const F& f) {
  static const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f();
  }
}

struct Checker {
  const Case& c;
  const Codec& reference;
  const Codec& cpu;

  [[noreturn]] void fail(const char* message) const {
    const PlaneLayout& l = c.what.layout;
    std::fprintf(stderr,
                 "codec_fuzz: %s: %s (%s, %lld x %lld planes of %lld x %lld x %lld, layout %d)\n",
                 c.spec.name.c_str(), message, std::string(type_name(c.what.type)).c_str(),
                 static_cast<long long>(l.outer), static_cast<long long>(l.inner),
                 static_cast<long long>(l.extent[0]), static_cast<long long>(l.extent[1]),
                 static_cast<long long>(l.extent[2]), c.fields.layout % 4);
    std::abort();
  }

  void expect(bool good, const char* message) const {
    if (!good) fail(message);
  }

  std::uint64_t element(const Bytes& bytes, std::int64_t k) const {
    return reference::load_bits(bytes.data(), c.offsets[k], element_size_or_byte(c.what.type));
  }

  /// The same bits, or two NaNs, whose bits approximating codecs don't promise.
  bool same(std::uint64_t a, std::uint64_t b) const {
    if (a == b) return true;
    if (test::is_exact(reference) || !is_float(c.what.type)) return false;
    return std::isnan(value_of(c.what.type, a)) && std::isnan(value_of(c.what.type, b));
  }

  /// Whether engines decode the same from bytes that no encode wrote. Approximating codecs may then
  /// come upon NaNs, which conversion to 16 bits isn't defined for.
  bool agree_on_anything() const {
    return test::is_exact(reference) || c.what.type == ElementType::float32 ||
           c.what.type == ElementType::float64;
  }

  void expect_gaps_untouched(Bytes target) const {
    const std::size_t size = element_size_or_byte(c.what.type);
    for (const std::int64_t offset : c.offsets) {
      std::memset(target.data() + offset * std::int64_t(size), std::to_integer<int>(kUntouched),
                  size);
    }
    expect(std::ranges::all_of(target, [](std::byte b) { return b == kUntouched; }),
           "decode wrote where the layout has no elements");
  }

  /// What the engines decode, or nothing where they refuse.
  std::optional<Bytes> decode(const Bytes& in, Reads reads, bool compare) const {
    Bytes target(test::source_bytes(c.what), kUntouched);
    const Bytes untouched = target;
    const bool good = reference.decode(c.what, in, target.data(), reads, serial_for);
    expect_gaps_untouched(target);
    for_each_target([&] {
      Bytes other = untouched;
      const bool also = cpu.decode(c.what, in, other.data(), reads, c.parallel());
      expect(good == also, "one engine decodes what the other refuses");
      expect_gaps_untouched(other);
      if (!good || !compare || other == target) return;
      for (std::int64_t k = 0; k < c.what.layout.elements(); ++k) {
        expect(same(element(target, k), element(other, k)), "engines decode different values");
      }
    });
    if (!good) return std::nullopt;
    return target;
  }

  /// What the engines encode, or nothing where they can't.
  std::optional<Bytes> encode(const Bytes& source) const {
    const RandomKey key = {c.fields.seed, 1, 2};
    Bytes out(reference.encoded_bytes(c.what), std::byte{0x5A});
    const Bytes unwritten = out;
    const Encoded encoded = reference.encode(c.what, source.data(), out, key, serial_for);
    expect(encoded.bytes <= out.size(), "more was encoded than announced");
    out.resize(encoded.bytes);
    for_each_target([&] {
      Bytes other = unwritten;
      const Encoded also = cpu.encode(c.what, source.data(), other, key, c.parallel());
      expect(encoded.representable == also.representable, "one engine holds what the other cannot");
      if (!encoded.representable) return;
      expect(encoded.bytes == also.bytes, "engines encode to different sizes");
      other.resize(also.bytes);
      expect(out == other, "engines encode different bytes");
    });
    if (!encoded.representable) return std::nullopt;
    out.shrink_to_fit();
    return out;
  }

  void expect_restored(const Bytes& source, const Bytes& target, Reads reads) const {
    for (std::int64_t k = 0; k < c.what.layout.elements(); ++k) {
      const std::uint64_t before = element(source, k);
      const std::uint64_t after = element(target, k);
      if (reads == Reads::values) {
        expect(before == after, "an exact codec changed a value");
        continue;
      }
      if (!is_float(c.what.type)) continue;
      if (reads == Reads::sign) {
        expect(is_positive_pattern(c.what.type, before) == is_positive_pattern(c.what.type, after),
               "an exact codec changed a sign");
        continue;
      }
      const float x = value_of(c.what.type, before);
      const float y = value_of(c.what.type, after);
      const IntervalBounds bounds = interval_of(c.spec);
      if (bounds.is_interval()) {
        expect(is_inside(x, bounds) == is_inside(y, bounds),
               "an exact codec moved a value over a bound");
      }
    }
  }

  void run() const {
    if (c.mode() == Mode::decode) {
      decode(Bytes(c.rest.begin(), c.rest.end()), c.reads(), agree_on_anything());
      return;
    }
    const Bytes source = c.source();
    const auto encoded = encode(source);
    if (!encoded) return;
    if (c.mode() == Mode::damage) {
      decode(c.damaged(*encoded), c.reads(), agree_on_anything());
      return;
    }
    for (const Reads reads : {Reads::sign, Reads::interval, Reads::values}) {
      const auto target = decode(*encoded, reads, true);
      if (!target) {
        expect(!test::is_exact(reference) || !serves(reference.restores(), reads),
               "an exact codec refuses to decode what it encoded");
        expect(reference.restores() != reads, "a codec refuses to restore what it says it does");
      } else if (test::is_exact(reference)) {
        expect_restored(source, *target, reads);
      }
    }
  }
};

void run(std::span<const std::byte> input) {
  const Case c(input);
  const auto reference = make_codec(c.spec, Engine::reference);
  const auto cpu = make_codec(c.spec, Engine::cpu);
  if (reference == nullptr || cpu == nullptr) {
    if (reference != cpu) std::abort();
    return;
  }
  const Checker checker{c, *reference, *cpu};
  checker.expect(reference->accepts(c.what) == cpu->accepts(c.what),
                 "one engine accepts what the other does not");
  if (!reference->accepts(c.what)) return;
  checker.expect(reference->encoded_bytes(c.what) == cpu->encoded_bytes(c.what),
                 "engines announce different sizes");
  checker.run();
}

}  // namespace
}  // namespace cinch::codecs::fuzz

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cinch::codecs::fuzz::run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
